// The program of "Apache Pulsar Throughput Test Result" on Apache's client: every producer sends one message and waits until all others have
// their acknowledgements as well. One client, one payload for all messages, producers divided among the topics in blocks.
//
//	pulsar-go ADDRESS TOPIC TOPICS PRODUCERS PAYLOAD_BYTES MESSAGES
//
// prints {"messages", "seconds"}: from the first round to the end of the last, when all producers exist.
package main

import (
	"context"
	"encoding/json"
	"log"
	"log/slog"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
)

func main() {
	address, topic := os.Args[1], os.Args[2]
	topics, count, size, messages := number(3), number(4), number(5), number(6)
	errors := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: address, Logger: pulsarlog.NewLoggerWithSlog(errors)})
	stop(err)
	defer client.Close()
	producers := make([]pulsar.Producer, 0, count)
	for index := range topics {
		for range count / topics {
			producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic + strconv.Itoa(index)})
			stop(err)
			defer producer.Close()
			producers = append(producers, producer)
		}
	}
	payload := make([]byte, size)
	for index := range payload {
		payload[index] = byte(rand.Uint32())
	}
	begun, sent := time.Now(), 0
	for ; sent < messages; sent += len(producers) {
		var round sync.WaitGroup
		round.Add(len(producers))
		for _, producer := range producers {
			go func() {
				_, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: payload})
				stop(err)
				round.Done()
			}()
		}
		round.Wait()
	}
	seconds := time.Since(begun).Seconds()
	stop(json.NewEncoder(os.Stdout).Encode(map[string]any{"messages": sent, "seconds": seconds}))
}

func number(index int) int {
	found, err := strconv.Atoi(os.Args[index])
	stop(err)
	return found
}

func stop(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

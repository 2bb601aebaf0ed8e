// Writes or reads messages of a Kafka by franz-go, for the tests of other clients' bytes:
//
//	franz-go write ADDRESS TOPIC MESSAGES   so many of each compression, by turns to partitions 0 and 1
//	franz-go read ADDRESS TOPIC MESSAGES    so many, a line each as Kafka's console consumer prints them
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A run that hangs fails its test.
const patience = 100 * time.Second

var compressions = []struct {
	name  string
	codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: franz-go write|read ADDRESS TOPIC MESSAGES"))
	}
	address, topic := os.Args[2], os.Args[3]
	messages, err := strconv.Atoi(os.Args[4])
	fail(err)
	context, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if os.Args[1] == "write" {
		write(context, address, topic, messages)
	} else {
		read(context, address, topic, messages)
	}
}

func write(context context.Context, address, topic string, messages int) {
	for _, compression := range compressions {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(address),
			kgo.ProducerBatchCompression(compression.codec),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
		)
		fail(err)
		for number := 0; number < messages; number++ {
			record := &kgo.Record{
				Topic:     topic,
				Partition: int32(number % 2),
				Key:       []byte(fmt.Sprintf("key-%d", number)),
				Value:     []byte(fmt.Sprintf(`{"compression":"%s","number":%d,"text":"%s"}`, compression.name, number, strings.Repeat("row-", 20))),
				Headers:   []kgo.RecordHeader{{Key: "tenant", Value: []byte("a")}, {Key: "empty", Value: nil}},
			}
			client.Produce(context, record, func(_ *kgo.Record, err error) { fail(err) })
		}
		fail(client.Flush(context))
		client.Close()
	}
}

func read(context context.Context, address, topic string, messages int) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	fail(err)
	defer client.Close()
	for messages > 0 {
		fetches := client.PollRecords(context, messages)
		for _, failed := range fetches.Errors() {
			fail(failed.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			headers := make([]string, 0, len(record.Headers))
			for _, header := range record.Headers {
				headers = append(headers, header.Key+":"+text(header.Value))
			}
			fmt.Printf("CreateTime:%d\tPartition:%d\tOffset:%d\t%s\t%s\t%s\n", record.Timestamp.UnixMilli(), record.Partition,
				record.Offset, strings.Join(headers, ","), text(record.Key), text(record.Value))
			messages--
		})
	}
}

// text tells a value that is missing from an empty one.
func text(bytes []byte) string {
	if bytes == nil {
		return "(null)"
	}
	return string(bytes)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

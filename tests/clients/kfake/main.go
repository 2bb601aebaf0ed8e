// A cluster of franz-go's own server for tests, which speaks Kafka's protocol and shares no code with Kafka. It ends with standard
// input, and prints the addresses of its nodes:
//
//	kfake NODES
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: kfake NODES"))
	}
	nodes, err := strconv.Atoi(os.Args[1])
	fail(err)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(nodes))
	fail(err)
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	_, err = io.Copy(io.Discard, os.Stdin)
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

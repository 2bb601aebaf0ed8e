module brokermark.invalid/kfake

go 1.20

require github.com/twmb/franz-go/pkg/kfake v0.0.0-20231206062516-c09dc92d2db1

require (
	github.com/twmb/franz-go v1.14.3 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.6.1 // indirect
	golang.org/x/crypto v0.11.0 // indirect
)

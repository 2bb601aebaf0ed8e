module brokermark.invalid/pulsar-go

go 1.24

require github.com/apache/pulsar-client-go v0.19.0

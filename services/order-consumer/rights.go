package main

import (
	"fmt"
	"io"
	"strings"
)

// resource is what a right is about.
type resource struct {
	Kind string `json:"kind"` // topic or group
	Name string `json:"name"`
}

// right is what one principal must be allowed to do with one resource, in the words of Kafka's ACLs.
type right struct {
	Principal string `json:"principal"`
	resource
	Operations []string `json:"operations"`
	Why        string   `json:"why"`
}

// rights are all that hanjul's own processes need of Kafka, and nothing that they do not. Read and Write include Describe. prefix begins the
// principals' names. No process needs a right on the cluster or on a transactional id.
func rights(c KafkaConfig, group string, replayed []string, prefix string) []right {
	topic := func(name string) resource { return resource{"topic", name} }
	orders, events, letters := topic(c.Topics.Orders), topic(c.Topics.Events), topic(c.Topics.DeadLetters)
	of := func(service string, on resource, why string, operations ...string) right {
		return right{prefix + service, on, operations, why}
	}
	const settings = "DescribeConfigs" // Only for the look at a topic's settings; without it that is a warning.
	list := []right{
		of("queue-api", orders, "commands of buyers", "Write", settings),
		of("admission-scheduler", orders, "commands of operators and of restored lines", "Write", settings),
		of("admission-scheduler", resource{"group", group}, "how far consumers are behind; without it the rate is not lowered for that", "Describe"),
		of("order-consumer", orders, "commands in; redriven ones and those of reconciling out", "Read", "Write", settings),
		of("order-consumer", events, "events out", "Write", settings),
		of("order-consumer", letters, "what cannot be judged", "Write", settings),
		of("order-consumer", resource{"group", group}, "the membership and its offsets", "Read"),
	}
	for _, name := range replayed {
		list = append(list, of("order-consumer", topic(name), "replays", "Write", settings))
	}
	list = append(list,
		of("audit", orders, "order-consumer audit", "Read"),
		of("audit", events, "order-consumer audit", "Read"),
		of("audit", resource{"group", group}, "order-consumer audit", "Describe"),
	)
	for _, on := range []resource{orders, events, letters} {
		list = append(list, of("topics", on, "order-consumer topics --create and --check", "Create", "Describe", settings))
	}
	return list
}

// printRights writes a line of Kafka's own tool for each right.
func printRights(w io.Writer, c KafkaConfig, list []right) {
	for _, r := range list {
		operations := strings.Join(r.Operations, " --operation ")
		_, _ = fmt.Fprintf(w, "kafka-acls.sh %s --add --allow-principal %s --operation %s --%s %s\n",
			c.tool(), r.Principal, operations, r.Kind, r.Name)
	}
}

// tool is how one of Kafka's own tools reaches the brokers. What it logs in with is the file of whoever runs it.
func (k KafkaConfig) tool() string {
	reach := "--bootstrap-server " + strings.Join(k.Client.Brokers, ",")
	if k.Client.TLS != nil || k.Client.Login.User != "" {
		reach += " --command-config client.properties"
	}
	return reach
}

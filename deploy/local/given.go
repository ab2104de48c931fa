package local

import (
	"os"
	"strings"
)

// Given is what the environment names by address; an empty field means that
// the server is ours to start.
type Given struct {
	Redis    []string
	Postgres string
	Kafka    []string
	// Jars asks for Apache Kafka from its jars where no address is given.
	Jars bool
}

// GivenByEnvironment reads HANJUL_REDIS_ADDRS, HANJUL_POSTGRES_URL,
// HANJUL_KAFKA_BROKERS and HANJUL_KAFKA.
func GivenByEnvironment() Given {
	return Given{
		Redis:    list(os.Getenv("HANJUL_REDIS_ADDRS")),
		Postgres: os.Getenv("HANJUL_POSTGRES_URL"),
		Kafka:    list(os.Getenv("HANJUL_KAFKA_BROKERS")),
		Jars:     os.Getenv("HANJUL_KAFKA") == "jars",
	}
}

// list splits a comma list and drops what is empty.
func list(text string) []string {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}

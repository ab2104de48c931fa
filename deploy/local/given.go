package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Given is what the environment names by address; an empty field means that
// the server is ours to start.
type Given struct {
	Redis    []string
	Postgres string
	Kafka    []string
	// Jars asks for Apache Kafka from its jars where no address is given, Docker
	// for Apache Kafka as a container.
	Jars, Docker bool
	// RedisKind asks for another Redis than one node in cluster mode where no
	// address is given: "cluster" is RedisCluster, "standalone" has no cluster mode.
	RedisKind string
}

// What HANJUL_REDIS says to ask for another Redis than the usual one.
const (
	kindCluster    = "cluster"
	kindStandalone = "standalone"
)

// RedisMode is "cluster" or "standalone", as the setting REDIS_MODE has it, of
// the Redis that is asked for or given.
func (g Given) RedisMode() string { return redisMode(g.RedisKind == kindStandalone) }

// GivenByEnvironment reads HANJUL_REDIS_ADDRS, HANJUL_POSTGRES_URL,
// HANJUL_KAFKA_BROKERS, HANJUL_KAFKA and HANJUL_REDIS.
func GivenByEnvironment() Given {
	return Given{
		Redis:     list(os.Getenv("HANJUL_REDIS_ADDRS")),
		Postgres:  os.Getenv("HANJUL_POSTGRES_URL"),
		Kafka:     list(os.Getenv("HANJUL_KAFKA_BROKERS")),
		Jars:      os.Getenv("HANJUL_KAFKA") == kafkaJars,
		Docker:    os.Getenv("HANJUL_KAFKA") == kafkaDocker,
		RedisKind: os.Getenv("HANJUL_REDIS"),
	}
}

// Built is the folder that HANJUL_BUILT names: the binaries of this tree, which
// make has just built there, so that the suite need not link them again. ""
// means that whoever needs one builds it.
func Built() string { return os.Getenv("HANJUL_BUILT") }

// DataHome is the git-ignored folder at the root of the repository, which is
// the folder with go.work above the present one, else the present folder.
func DataHome() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return filepath.Join(dir, ".data"), nil
		}
		if dir == filepath.Dir(dir) {
			return filepath.Join(here, ".data"), nil
		}
	}
}

// StateSuffix ends the name of a folder with the state of a stack, so that each
// choice of servers has one of its own: one broker's offsets mean nothing to
// another, nor one database's orders.
func StateSuffix(getenv func(string) string) string {
	suffix := ""
	if getenv("HANJUL_SERVERS") == serversDocker {
		suffix += "-containers"
	}
	if kafka := getenv("HANJUL_KAFKA"); kafka == kafkaJars || kafka == kafkaDocker {
		suffix += "-" + kafka
	}
	return suffix
}

// KafkaHome is the folder under DataHome where Apache Kafka's jars are kept.
func KafkaHome(data string) string { return filepath.Join(data, "kafka-home") }

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

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// The images that servers are taken from where the environment names no
// others: the same as in docker-compose.yml.
const (
	RedisImage    = "redis:7.2.10-bookworm"
	PostgresImage = "postgres:15.14-bookworm"
	KafkaImage    = "apache/kafka:4.4.0"
)

// What HANJUL_SERVERS may say: where servers come from that no address is given for.
const (
	serversAuto     = "auto"     // programs of this machine, else containers
	serversPrograms = "programs" // never containers
	serversDocker   = "docker"   // only containers
)

// What HANJUL_KAFKA may say.
const (
	kafkaEmbedded = "embedded" // a broker inside this process
	kafkaJars     = "jars"     // Apache Kafka from its jars, as a process
	kafkaDocker   = "docker"   // Apache Kafka as a container
)

// wishes is what the environment says about servers beyond their addresses.
type wishes struct {
	servers string
	kafka   string

	redisImage, postgresImage, kafkaImage string
}

// imageName is NAME[:TAG][@DIGEST] with its registry's host before it, as an engine takes it.
var imageName = regexp.MustCompile(`^[a-z0-9][a-z0-9._:/-]*[a-z0-9](:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@[a-z0-9]+:[0-9a-f]+)?$`)

// wished reads HANJUL_SERVERS, HANJUL_KAFKA and the names of images; its error
// names everything that is wrong.
func wished() (wishes, error) {
	var faults []error
	oneOf := func(name, otherwise string, words ...string) string {
		value := os.Getenv(name)
		if value == "" {
			return otherwise
		}
		for _, word := range words {
			if value == word {
				return word
			}
		}
		last := len(words) - 1
		faults = append(faults, fmt.Errorf("%s: expected %s or %s, found %q", name, strings.Join(words[:last], ", "), words[last], value))
		return otherwise
	}
	image := func(name, otherwise string) string {
		value := os.Getenv(name)
		if value == "" {
			return otherwise
		}
		if !imageName.MatchString(value) {
			faults = append(faults, fmt.Errorf("%s: expected an image such as %s, found %q", name, otherwise, value))
		}
		return value
	}
	w := wishes{
		servers:       oneOf("HANJUL_SERVERS", serversAuto, serversAuto, serversPrograms, serversDocker),
		kafka:         oneOf("HANJUL_KAFKA", kafkaEmbedded, kafkaEmbedded, kafkaJars, kafkaDocker),
		redisImage:    image("HANJUL_REDIS_IMAGE", RedisImage),
		postgresImage: image("HANJUL_POSTGRES_IMAGE", PostgresImage),
		kafkaImage:    image("HANJUL_KAFKA_IMAGE", KafkaImage),
	}
	return w, errors.Join(faults...)
}

// inContainer says where a server is to run: nil for the program that look
// finds here, else the engine that is to run the image. The error is look's
// own where there is neither, with the reason why no container can stand in.
func (w wishes) inContainer(ctx context.Context, image string, look func() error) (*engine, error) {
	if w.servers == serversDocker {
		e, err := findEngine(ctx)
		if err != nil {
			return nil, fmt.Errorf("HANJUL_SERVERS=%s: %w", serversDocker, err)
		}
		return e, nil
	}
	err := look()
	if w.servers == serversPrograms || !errors.Is(err, ErrMissing) {
		return nil, err
	}
	e, errEngine := findEngine(ctx)
	if errEngine != nil {
		return nil, errors.Join(err, errEngine)
	}
	// Ensure has had the image fetched where that was possible.
	if errImage := e.has(ctx, image); errImage != nil {
		e.close()
		return nil, errors.Join(err, errImage)
	}
	return e, nil
}

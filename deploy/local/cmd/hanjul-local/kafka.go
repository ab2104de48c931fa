package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hanjul/deploy/local"
)

// fetchKafka prints the folder of Apache Kafka's jars, fetched where they are not here yet.
func fetchKafka(ctx context.Context) error {
	data, err := local.DataHome()
	if err != nil {
		return err
	}
	jars, err := local.FetchKafka(ctx, local.KafkaHome(data))
	if err != nil {
		return err
	}
	fmt.Println(jars)
	return nil
}

// kafka keeps one Apache Kafka node running until a signal. Its records stay.
func kafka(ctx context.Context) (err error) {
	data, err := local.DataHome()
	if err != nil {
		return err
	}
	fmt.Println("fetching Apache Kafka where it is not here yet")
	jars, err := local.FetchKafka(ctx, local.KafkaHome(data))
	if err != nil {
		return err
	}
	broker, err := local.StartKafkaJars(ctx, local.KafkaJarsOptions{
		Jars: jars, Dir: filepath.Join(data, "kafka-node"), Persist: true, Port: local.KafkaPort, Log: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, broker.Stop(limit))
	}()
	addrs := strings.Join(broker.Addrs(), ",")
	fmt.Printf("%s is ready at %s\n", broker.Version(), addrs)
	fmt.Printf("use it with: export HANJUL_KAFKA_BROKERS=%s\n", addrs)
	fmt.Println("Ctrl-C ends it")
	select {
	case <-ctx.Done():
		return nil
	case <-broker.Ended():
		return errors.New("the broker ended by itself")
	}
}

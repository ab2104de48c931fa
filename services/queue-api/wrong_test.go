package main

import (
	"bytes"
	"testing"

	"hanjul/pkg/config"
	"hanjul/pkg/config/configtest"
)

func TestEachSettingWrong(t *testing.T) {
	t.Parallel()
	configtest.EachWrong(t, configtest.Service{
		Word: service, Load: func(s *config.Source) { loadConfig(s) }, Good: environment(),
		Cases: map[string]string{
			// Said where nothing uses them: they are wrong beside the good environment.
			"REDIS_MASTER": "primary", "REDIS_SENTINEL_USER": "watcher", "REDIS_SENTINEL_PASSWORD": "hush-hush-hush", "KAFKA_USER": "kim", "KAFKA_PASSWORD": "hush-hush-hush",
			"REDIS_USER": configtest.Any, "REDIS_PASSWORD": configtest.Any, "TOPIC_ORDERS": configtest.Any,
			"ORIGINS": "https://shop.example/checkout",
		},
		Ruled: []string{"KAFKA_CA_FILE", "KAFKA_CERT_FILE", "KAFKA_KEY_FILE", "KAFKA_USER", "KAFKA_PASSWORD"},
		Validate: func(environ []string) (int, string) {
			var out bytes.Buffer
			return run([]string{"-validate"}, environ, &out, &out), out.String()
		},
	})
}

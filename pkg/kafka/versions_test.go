package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func TestCheckAPIVersions(t *testing.T) {
	t.Parallel()

	t.Run("Fits", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		if err := CheckAPIVersions(patient(t), configOf(c)); err != nil {
			t.Error(err)
		}
	})

	t.Run("BrokerTooOld", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1, kfake.MaxVersions(kversion.V0_8_2()))
		wantParts(t, CheckAPIVersions(patient(t), configOf(c)), "offers JoinGroup v0 to v0, we speak v1 to v2, which is in Kafka since 0.10.1",
			"needed is Kafka 2.1 or later",
			"does not offer CreateTopics, we speak v0 to v5")
	})

	t.Run("OldestBroker", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1, kfake.MaxVersions(kversion.V2_1_0()))
		if err := CheckAPIVersions(patient(t), configOf(c)); err != nil {
			t.Error(err)
		}

		accepted(t, producer(t, produceConfig(c, 1)).send(t, record("k", "v")))

		if got := log(t, configOf(c), topic); len(got) != 1 {
			t.Errorf("%d records are in the log", len(got))
		}
	})

	t.Run("BrokerDroppedOldVersions", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		c.ControlKey(int16(kmsg.ApiVersions), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()

			answer := r.ResponseKind().(*kmsg.ApiVersionsResponse)
			for api := range int16(52) {
				key := kmsg.NewApiVersionsResponseApiKey()
				key.ApiKey, key.MaxVersion = api, 20

				switch api {
				case int16(kmsg.JoinGroup):
					key.MinVersion = 4
				case int16(kmsg.Produce):
					key.MinVersion = 9
				case int16(kmsg.Metadata): // Fits one of the two stacks only.
					key.MinVersion = 7
				}

				answer.ApiKeys = append(answer.ApiKeys, key)
			}

			return answer, nil, true
		})
		err := CheckAPIVersions(patient(t), configOf(c))
		wantParts(t, err, "offers JoinGroup v4 to v20, we speak v1 to v2", "offers Produce v9 to v20, we speak v3 to v8",
			"this Kafka is too new for this build",
			"offers Metadata v7 to v20, we speak v1, v6")

		if Transient(err) || strings.Contains(err.Error(), "Heartbeat") {
			t.Error(err)
		}
	})

	t.Run("OneOfTheBrokersIsEnough", func(t *testing.T) {
		t.Parallel()

		c, _ := cluster(t, 1)
		cfg := configOf(c)
		cfg.Brokers = append([]string{"127.0.0.1:1"}, cfg.Brokers...)

		if err := CheckAPIVersions(patient(t), cfg); err != nil {
			t.Error(err)
		}

		cfg.Brokers, cfg.Timeout = cfg.Brokers[:1], 50*time.Millisecond
		wantParts(t, CheckAPIVersions(patient(t), cfg), "127.0.0.1:1")
	})
}

module hanjul/deploy/local

go 1.26.0

replace (
	hanjul/deploy/local => ../../deploy/local
	hanjul/e2e => ../../e2e
	hanjul/lua => ../../lua
	hanjul/migrations => ../../migrations
	hanjul/pkg => ../../pkg
	hanjul/services/admission-scheduler => ../../services/admission-scheduler
	hanjul/services/order-consumer => ../../services/order-consumer
	hanjul/services/queue-api => ../../services/queue-api
)

require (
	github.com/jackc/pgx/v5 v5.13.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kadm v1.20.0
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/text v0.44.0 // indirect
)

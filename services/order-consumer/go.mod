module hanjul/services/order-consumer

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

require hanjul/pkg v0.0.0-00010101000000-000000000000

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.13.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/mfridman/interpolate v0.2.0 // indirect
	github.com/pressly/goose/v3 v3.30.1 // indirect
	github.com/sethvargo/go-retry v0.5.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	hanjul/migrations v0.0.0-00010101000000-000000000000 // indirect
)

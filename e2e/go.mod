module hanjul/e2e

go 1.26.0

replace (
	hanjul/deploy/local => ../deploy/local
	hanjul/e2e => ../e2e
	hanjul/lua => ../lua
	hanjul/migrations => ../migrations
	hanjul/pkg => ../pkg
	hanjul/services/admission-scheduler => ../services/admission-scheduler
	hanjul/services/order-consumer => ../services/order-consumer
	hanjul/services/queue-api => ../services/queue-api
)

require (
	github.com/google/go-cmp v0.7.0
	github.com/prometheus/client_model v0.6.3
	github.com/prometheus/common v0.72.0
	hanjul/pkg v0.0.0-00010101000000-000000000000
)

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

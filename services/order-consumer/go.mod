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

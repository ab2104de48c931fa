# One workspace, several modules, no go.mod at the root: "work" stands for all of them in go build, vet and test.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

# Tools, pinned here and nowhere else; built through the Go module proxy into bin/tools.
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION   := v1.9.0
KUSTOMIZE_VERSION     := v5.8.1

BIN      := bin
TOOLS    := $(BIN)/tools
LINT     := $(TOOLS)/$(GOLANGCI_LINT_VERSION)/golangci-lint
VULNS    := $(TOOLS)/$(GOVULNCHECK_VERSION)/govulncheck
KUSTOMIZE := $(TOOLS)/$(KUSTOMIZE_VERSION)/kustomize
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS  := -X main.version=$(VERSION) -X main.revision=$(REVISION)
GO_BUILD := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'
# The directories of all modules, and the same as patterns for tools that do not know "work".
MODULES   = $(shell go list -m -f '{{.Dir}}')
PATTERNS  = $(shell go list -m -f '{{.Dir}}/...')

# The race detector needs a C compiler; without one the tests run all the same, and say so.
RACE := $(if $(shell command -v $$(go env CC)),-race)
# How long one package's tests may take before they are ended with a stack dump.
TEST_TIMEOUT ?= 10m
# REDIS=cluster on the command line is HANJUL_REDIS=cluster in the environment.
ifdef REDIS
export HANJUL_REDIS := $(REDIS)
endif
# Vetting every dependency again would cost a minute on a cold cache; verify vets.
GO_TEST := go test $(RACE) -vet=off
# Most of the suite waits for servers and for time limits that it lets run out, so more packages than cores run at once.
PACKAGES_AT_ONCE ?= 4
# A race-detecting program sleeps a second before it exits, in case a race is still about to happen; forty packages pay for
# that, and so does each program that a test starts from its own binary.
export GORACE ?= atexit_sleep_ms=0

##@ Everyday

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build every binary into bin/
	@mkdir -p $(BIN)
	$(GO_BUILD) -o $(BIN)/ hanjul/services/queue-api hanjul/services/admission-scheduler hanjul/services/order-consumer
	$(GO_BUILD) -o $(BIN)/ hanjul/deploy/local/cmd/hanjul-local hanjul/e2e/cmd/demo hanjul/e2e/cmd/chaos hanjul/e2e/cmd/bookkeeper

.PHONY: demo
demo: build ## hold a sale and check its books (BUYERS STOCK SEED RATE CHAOS=1 REDIS=cluster INSTALL=0)
	@$(BIN)/hanjul-local setup
	@$(BIN)/demo

.PHONY: run
run: build ## keep the whole stack running, with a product open; state survives a restart
	@$(BIN)/hanjul-local run

# These find the binaries where they were just built.
test test-kafka test-redis-cluster test-redis-primary: export HANJUL_BUILT := $(abspath $(BIN))

.PHONY: test
test: build warn-race ## the whole suite, with its servers and the race detector
	$(BIN)/hanjul-local with-servers -- $(GO_TEST) -p $(PACKAGES_AT_ONCE) -timeout $(TEST_TIMEOUT) work
	@$(MAKE) test-standalone

.PHONY: test-standalone
test-standalone: ## the owners of Redis keys, on a server without cluster mode (HANJUL_REDIS_SERVER=valkey-server: on Valkey)
	HANJUL_REDIS=standalone HANJUL_REDIS_ADDRS= $(GO_TEST) -timeout $(TEST_TIMEOUT) hanjul/pkg/waitingroom hanjul/pkg/stock hanjul/pkg/orderstatus

# Random lives of the model test, and moves of each, on average.
CHECKS ?= 1000
STEPS  ?= 60

.PHONY: test-model
test-model: build warn-race ## more random lives of a line, its clock and its absent people against plain models (CHECKS=1000 STEPS=60)
	$(BIN)/hanjul-local with-servers -- $(GO_TEST) -count=1 -timeout 1h -run AgainstModel hanjul/pkg/waitingroom \
		-rapid.checks=$(CHECKS) -rapid.steps=$(STEPS)

.PHONY: test-gate
test-gate: build ## a burst of 50,000 joins through three schedulers with every trigger: rate and capacity hold at every sample
	HANJUL_GATE_JOINS=50000 $(BIN)/hanjul-local with-servers -- go test -vet=off -count=1 -v -timeout $(TEST_TIMEOUT) \
		-run TestGate hanjul/services/admission-scheduler/internal/admit

.PHONY: race
race: test ## the same: the suite always runs with the race detector

.PHONY: kafka
kafka: build ## fetch Apache Kafka's jars and start one node (needs Java 17 and Maven)
	@$(BIN)/hanjul-local kafka

.PHONY: test-kafka
test-kafka: build warn-race ## every test that talks to Kafka, and a small demo, on Apache Kafka itself
	HANJUL_KAFKA=jars $(BIN)/hanjul-local with-servers -- $(GO_TEST) -count=1 -timeout 14m \
		hanjul/e2e hanjul/e2e/cmd/bookkeeper hanjul/deploy/local/... hanjul/pkg/kafka/... hanjul/services/...
	HANJUL_KAFKA=jars $(MAKE) demo BUYERS=300

.PHONY: test-redis-cluster
test-redis-cluster: build warn-race ## every test that talks to Redis, and sales and a demo that lose a primary, on a Redis Cluster
	HANJUL_REDIS=cluster $(BIN)/hanjul-local with-servers -- $(GO_TEST) -count=1 -timeout $(TEST_TIMEOUT) \
		hanjul/pkg/redisconn hanjul/pkg/waitingroom hanjul/pkg/stock hanjul/pkg/orderstatus hanjul/services/queue-api/... \
		hanjul/services/admission-scheduler/... hanjul/services/order-consumer hanjul/services/order-consumer/internal/fulfil
	$(MAKE) test-redis-primary
	$(MAKE) demo REDIS=cluster BUYERS=300 CHAOS=1

.PHONY: test-redis-primary
test-redis-primary: build warn-race ## sales whose primary is killed, rolled back, emptied and frozen (COUNT, 1)
	HANJUL_REDIS=cluster $(BIN)/hanjul-local with-servers -- $(GO_TEST) -count=$(or $(COUNT),1) -timeout 60m -run '^TestSaleWhileAPrimaryDies$$' hanjul/e2e

.PHONY: test-docker
test-docker: ## images, docker-compose.yml and a sale in containers, on an engine of our own (root on Debian)
	@GO_TEST='$(GO_TEST)' deploy/docker/test

.PHONY: chaos
chaos: build ## hold sales under seeded faults and audit each (ROUNDS SEED FAULTS ORDERS BUYERS REDIS=cluster)
	@$(BIN)/hanjul-local setup
	@$(BIN)/chaos

.PHONY: churn
churn: build ## judge many orders while consumers come and go every two seconds (ORDERS, 100000)
	HANJUL_CHURN_ORDERS=$(or $(ORDERS),100000) $(BIN)/hanjul-local with-servers -- go test -count=1 -timeout 30m -v -run '^TestConsumersComeAndGo$$' hanjul/e2e

.PHONY: bench
bench: build ## the benchmarks, each beside its ceiling in the same run
	$(BIN)/hanjul-local with-servers -- go test -count=1 -timeout 15m -run '^$$' -bench . -benchtime 1x hanjul/e2e/bench/... hanjul/services/queue-api/internal/httpapi/... hanjul/services/admission-scheduler/internal/admit

.PHONY: million
million: ## what a person of a line of a million costs, in Redis and in queue-api (PEOPLE, 1000000)
	HANJUL_MILLION_PEOPLE=$(or $(PEOPLE),1000000) go test -count=1 -timeout 30m -run '^$$' -bench '^BenchmarkMillion$$' -benchtime 1x hanjul/services/queue-api/internal/live

##@ House

.PHONY: fmt
fmt: $(LINT) ## format every file
	$(LINT) fmt $(PATTERNS)

.PHONY: lint
lint: $(LINT) ## run the linters of .golangci.yml
	$(LINT) run $(PATTERNS)

.PHONY: tidy
tidy: ## tidy every module, then the workspace
	@tidy() { for module in $(MODULES); do (cd "$$module" && GOWORK=off go mod tidy); done; }; \
	tidy; go work sync; tidy # sync raises versions to what the workspace links, and leaves the sums to tidy

.PHONY: verify
verify: ## check everything, change nothing; every part runs, whatever an earlier one finds
	@$(MAKE) --keep-going verify-format verify-vet verify-lint verify-tidy verify-modules verify-house verify-kubernetes verify-vulns
	@echo 'verify: ok'

.PHONY: fix
fix: fmt tidy ## repair what verify finds, as far as a machine can
	go test -count=1 -run TestOperations hanjul/e2e/house -update
	$(LINT) run --fix $(PATTERNS)

.PHONY: schemas
schemas: ## write e2e/kubernetes/schema anew, after a version in e2e/cmd/schemas was raised
	go run hanjul/e2e/cmd/schemas e2e/kubernetes/schema

.PHONY: clean
clean: ## remove what was built; state under .data stays
	rm -rf $(BIN) dist

# The parts of verify, each of which runs alone too.

.PHONY: verify-format
verify-format: $(LINT)
	@echo '== format'
	@$(LINT) fmt --diff $(PATTERNS)

.PHONY: verify-vet
verify-vet:
	@echo '== vet'
	@go vet work

.PHONY: verify-lint
verify-lint: $(LINT)
	@echo '== lint'
	@$(LINT) run $(PATTERNS)

.PHONY: verify-tidy
verify-tidy:
	@echo '== tidy'
	@failed=0; for module in $(MODULES); do (cd "$$module" && GOWORK=off go mod tidy -diff) || failed=1; done; exit $$failed
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	git ls-files -z -- '*go.mod' '*go.sum' '*.go' '*.lua' '*.sql' go.work go.work.sum | xargs -0 cp --parents -t "$$scratch"; \
	(cd "$$scratch" && go work sync); failed=0; \
	for file in $$(git ls-files -- '*go.mod' go.work go.work.sum); do diff -u "$$file" "$$scratch/$$file" || failed=1; done; \
	exit $$failed

.PHONY: verify-modules
verify-modules:
	@echo '== each module without the workspace'
	@for module in $(MODULES); do (cd "$$module" && GOWORK=off go build ./... && GOWORK=off go vet ./...); done

.PHONY: verify-house
verify-house:
	@echo '== imports, modules, comments, paths in documents'
	@go test -count=1 hanjul/e2e/house

.PHONY: verify-kubernetes
verify-kubernetes: $(KUSTOMIZE)
	@echo '== kubernetes manifests, against their schemas and against the services'
	@HANJUL_KUSTOMIZE="$(abspath $(KUSTOMIZE))" go test -count=1 -vet=off hanjul/e2e/kubernetes

.PHONY: verify-vulns
verify-vulns: $(VULNS)
	@echo '== known vulnerabilities'
	@for module in $(MODULES); do \
		code=0; said=$$(cd "$$module" && GOWORK=off "$(abspath $(VULNS))" ./... 2>&1) || code=$$?; \
		if grep -q 'fetching vulnerabilities' <<<"$$said"; then \
			echo 'NOT CHECKED: the vulnerability database cannot be reached from here'; exit 0; fi; \
		if [ $$code -ne 0 ]; then echo "$$said"; exit 1; fi; \
	done; echo 'none known'

.PHONY: warn-race
warn-race:
	@$(if $(RACE),,echo 'NOTE: no C compiler here, so the race detector is off')

$(VULNS):
	@mkdir -p $(dir $@)
	@GOBIN="$(abspath $(dir $@))" go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

$(KUSTOMIZE):
	@mkdir -p $(dir $@)
	@CGO_ENABLED=0 GOBIN="$(abspath $(dir $@))" go install sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE_VERSION)

$(LINT):
	@echo 'building golangci-lint $(GOLANGCI_LINT_VERSION), some minutes once'
	@mkdir -p $(dir $@)
	@GOBIN="$(abspath $(dir $@))" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

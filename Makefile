# Berth. `make help` lists what there is.
# One set of build flags everywhere, so that one build cache serves all.
export CGO_ENABLED := 0
K8S := v1.36.3
VERSION_PKG := k8s.io/component-base/version
LDFLAGS := -s -w -X $(VERSION_PKG).gitVersion=$(K8S) -X $(VERSION_PKG).gitMajor=1 -X $(VERSION_PKG).gitMinor=36 -X $(VERSION_PKG).gitTreeState=clean

.DEFAULT_GOAL := help
.PHONY: help ldflags build agent release up down test soak check lint bench generate tidy clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

ldflags: # for the scripts in tools/, when they are run by themselves
	@echo '$(LDFLAGS)'

build: ## build bin/berth, bin/kubectl-berth and bin/kubectl
	@sh tools/build.sh "$(LDFLAGS)"

agent: ## build bin/berth-agent and bin/berth-nvml, for nodes with GPUs
	go build -ldflags "$(LDFLAGS)" -o bin/berth-agent ./cmd/berth-agent
	@sh tools/nvml.sh "$(LDFLAGS)"

# For this machine's platform, or those named: make release PLATFORMS="linux/amd64 linux/arm64"
release: check lint ## check, lint, and build bin/release: what people are given, without paths of this machine, for PLATFORMS
	@sh tools/release.sh "$(LDFLAGS)" $(PLATFORMS)

up: ## build and start a Kubernetes control plane with a simulated GPU fleet here
	@sh tools/up.sh "$(LDFLAGS)"

down: ## stop it; what is in it is kept
	@bin/berth down

test: ## everything that must pass: formatting, vet, unit, race, scripts on the built program; prints its time part by part
	@sh tools/test.sh "$(LDFLAGS)"

soak: ## the same, and every seed, kill and storm at full length: about two hours
	@BERTH_SOAK=1 sh tools/test.sh "$(LDFLAGS)"

check: ## formatting and vet
	@sh tools/check.sh

lint: ## golangci-lint with .golangci.yml (built on first use)
	cd tools/lint && go build -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	bin/golangci-lint run ./...

bench: build agent ## measure, and write docs/benchmarks.md and docs/benchmarks-go.txt
	go run ./test/bench
	go test -run '^$$' -bench 'Decision|IndexUpdate|Clone|Find|Plan|BoundToRunning|Cluster|Refusals|Allocate|PreStart|Scrape|Samples|KubeletRestart|Render|PodLife|Month|Admit|Starts|Guard|Policies' -benchtime 1s ./core/placement ./core/preemption ./core/gang ./core/quota ./controller/meter ./kube/view ./kube/explain ./kube/profile ./fleet ./agent/allocation ./agent/deviceplugin ./agent/exporter ./agent/nvml ./controlplane ./scheduler/admission | tee docs/benchmarks-go.txt

generate: ## rewrite golden files; review the difference line by line
	go test ./agent/doctor ./agent/exporter ./cli ./cli/simulate/chart ./controller/notebook ./fleet/smi ./kube/doctor ./kube/profile -update
	@git --no-pager diff --stat

tidy: ## bring go.mod and go.sum up to date
	go mod tidy

clean: ## remove what was built
	rm -rf bin

package api

// The ledger of a cluster: see docs/cost.md.
const (
	// LedgerPath is where the ledger is served: by the API server in `berth up`, and by `berth meter`.
	LedgerPath = "/berth/v1/"
	// PrometheusPath is where readings and alerts are served as Prometheus does, by the same.
	PrometheusPath = "/prometheus/"

	// LedgerNamespace and LedgerService are where the ledger of `berth meter` is asked for through the API server's proxy.
	LedgerNamespace = "kube-system"
	LedgerService   = "https:berth-meter:ledger"

	// LedgerReader and LedgerWriter are the ServiceAccounts of LedgerNamespace by whose tokens it is read, and prices of the
	// past are changed; LedgerTokenHeader is where a token is, as the proxy removes Authorization.
	LedgerReader      = "berth-ledger-reader"
	LedgerWriter      = "berth-ledger-writer"
	LedgerTokenHeader = "Berth-Ledger-Token"
)

// The activators of model services: see docs/background/requests.md.
const (
	// ActivatorNamespace and ActivatorApp are the namespace, and the value of the label app, of pods of `berth activator`; so is
	// the name of the Service before them, which says which of them are ready.
	ActivatorNamespace = "kube-system"
	ActivatorApp       = "berth-activator"

	// ActivatorPort is where they serve StatsPath, metrics, and health.
	ActivatorPort = 10262
	// StatsPath is where they say what is asked of each service, to holders of a token of StatsReader, a ServiceAccount of
	// ActivatorNamespace; StatsTokenHeader is where the token is, as the API server's proxy removes Authorization.
	StatsPath        = "/stats"
	StatsReader      = "berth-stats-reader"
	StatsTokenHeader = "Berth-Stats-Token"

	// SelectorActivator, with ByActivator, in the selector of a Service of an InferenceService selects no pod: all requests
	// go through an activator, which finds the pods by the rest of the selector, and counts.
	SelectorActivator = "berth.dev/requests"
	ByActivator       = "by-activator"
	// LabelActivator, on an EndpointSlice that leads to an activator, is the name of its pod.
	LabelActivator = "activator.berth.dev/replica"
)

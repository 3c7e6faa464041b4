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

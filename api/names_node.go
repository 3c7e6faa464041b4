package api

// Names of a real node, which the node agent writes or answers with.
const (
	// AnnotationObserved, on a Node, says which devices the pods hold that came
	// without a commitment: JSON by pod UID and container,
	// {"<podUID>":{"<container>":[{"uuid":"GPU-...","milliGPU":1000,"memoryBytes":N}]}}.
	// Only the node agent writes it.
	AnnotationObserved = "berth.dev/observed-devices"

	// LabelAllocation, on a Node, says how its agent gives devices to containers:
	// AllocationCommitted or AllocationKubelet.
	LabelAllocation = "berth.dev/allocation"

	// AllocationCommitted is the value of LabelAllocation on a node that gives a
	// pod exactly the devices that were committed to it.
	AllocationCommitted = "committed"

	// AllocationKubelet is the value of LabelAllocation on a node where the
	// kubelet's choice stands and commitments are not honored.
	AllocationKubelet = "kubelet"

	// LabelAgent, on a Node, keeps the node agent's DaemonSet away with the value
	// "false"; the node's administrator sets it.
	LabelAgent = "berth.dev/agent"

	// LabelFakeGPUs, on a Node, is "true" where the agent serves GPUs that do not
	// exist.
	LabelFakeGPUs = "berth.dev/fake-gpus"

	// CDIKind is the vendor and class of the CDI devices that stand for what one
	// container gets.
	CDIKind = "berth.dev/alloc"

	// AnnotationScrapeScheme is the annotation by which scrapers commonly learn
	// whether a pod serves its metrics by "http", the default, or "https".
	AnnotationScrapeScheme = "prometheus.io/scheme"

	// MetricsNamespace and MetricsReader name the ServiceAccount that may read the
	// metrics of node agents and nothing else, and MetricsRole its ClusterRole.
	MetricsNamespace = "kube-system"
	MetricsReader    = "berth-metrics-reader"
	MetricsRole      = "berth-metrics-reader"

	// RecordRole is the ClusterRole that lets its subjects read which pods held GPUs of a node and are gone.
	RecordRole = "berth-record-reader"

	// AgentAccount is the ServiceAccount of the node agents, in MetricsNamespace.
	AgentAccount = "berth-agent"

	// MetricsTokenHeader is the header in which a token reaches a node agent through
	// the API server's proxy, which keeps Authorization to itself. Only tokens for
	// MetricsAudience are taken from it, which are of no use elsewhere.
	MetricsTokenHeader = "Berth-Metrics-Token"

	// MetricsAudience is the audience of a token in MetricsTokenHeader.
	MetricsAudience = "berth-metrics"
)

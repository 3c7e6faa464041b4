// Package api holds every label, annotation and resource name that Berth owns
// or reads. It holds no behavior.
package api

// Names that Berth owns. All labels, annotations and resources start with "berth.dev/".
const (
	// LabelSimulated marks a node of the simulated fleet. Its value is "true".
	// Only nodes with this label are written by the fleet, and only their
	// addresses are kept inside the process.
	LabelSimulated = "berth.dev/simulated"

	// AnnotationSimulated is the sentence a person sees on everything that is
	// simulated: nodes, volumes and system pods.
	AnnotationSimulated = "berth.dev/simulated-by"

	// GroupAdmins is the group of the owner of a `berth up`: a ClusterRoleBinding of the
	// same name gives it all rights.
	GroupAdmins = "berth:cluster-admins"

	// AnnotationDevices holds the committed devices of a pod, written only by
	// Berth's scheduler in the Binding: JSON
	// {"<container>":[{"uuid":"GPU-...","milliGPU":1000,"memoryBytes":N}]}.
	AnnotationDevices = "berth.dev/devices"

	// AnnotationScheduler, on an admission policy of Berth's, is the name by which
	// the API server knows the one scheduler that may commit devices.
	AnnotationScheduler = "berth.dev/scheduler-user"

	// AnnotationUser, on a Pod or on an object that creates pods, is the API server's name
	// of the user who created it, or that an identity which speaks for others named. Admission
	// policies write it and keep it. See docs/users.md.
	AnnotationUser = "berth.dev/user"

	// AnnotationUserOf, beside it on an object that a controller created, is the UID of the
	// object that it was created for: the user is that object's.
	AnnotationUserOf = "berth.dev/user-of"

	// AnnotationInventory, on a Node, lists its GPUs as the node agent (or the
	// fleet) sees them: JSON of []devices.InventoryGPU of package kube/devices, in index order.
	AnnotationInventory = "berth.dev/inventory"

	// AnnotationPrice, on a Node, is its price per hour in dollars, decimal.
	AnnotationPrice = "berth.dev/price-per-hour"

	// AnnotationFaults, on a simulated Node, holds the faults that `berth sim
	// break` put there: a JSON list of "KIND" or "KIND/GPU", sorted.
	AnnotationFaults = "berth.dev/faults"

	// AnnotationPluginConfig, on a simulated Node, is the device plugin
	// configuration in force, as JSON of gpu.Sharing. It survives a restart.
	AnnotationPluginConfig = "berth.dev/plugin-config"

	// AnnotationPluginConfigBefore, on a simulated Node whose device plugin has read a
	// ConfigMap, is the configuration without one, as JSON of gpu.Sharing.
	AnnotationPluginConfigBefore = "berth.dev/plugin-config-before"

	// AnnotationSimulate, on a Pod, says how its containers behave in the
	// simulated fleet: see docs/reference/fleet.md.
	AnnotationSimulate = "berth.dev/simulate"

	// AnnotationGang, on a Pod, is the name of its gang: pods of one namespace
	// that are placed together or not at all. See docs/background/gangs.md.
	AnnotationGang = "berth.dev/gang"

	// AnnotationGangMinCount, on a Pod of a gang, is how many of the gang must
	// have a place before any gets one. Pods of a Job or JobSet need none.
	AnnotationGangMinCount = "berth.dev/gang-min-count"

	// AnnotationGangGrace, on a Pod of a gang, is how long some of its pods may run without
	// the rest before all are evicted, to start again together: a duration such as "5m", or
	// "never". See docs/background/gangs.md.
	AnnotationGangGrace = "berth.dev/gang-grace"

	// AnnotationRestarts, on a training job, counts how often the pods of its members were created again after
	// a failure, and how often all its pods were replaced together: see core/training.Restarts and Job.Round.
	AnnotationRestarts = "berth.dev/restarts"

	// AnnotationRound, on a pod of such a job, is how often all pods had been replaced together when it was
	// created: a number. A pod without it is of round 0.
	AnnotationRound = "berth.dev/round"

	// TaintLeaving, on a Node, says that the node will be gone soon, as a spot instance is after its notice. Training jobs
	// leave it at once.
	TaintLeaving = "berth.dev/leaving"

	// AnnotationRuntime, on a TrainJob, is the spec of its training runtime as JSON, as it was when the job was first seen. A
	// change of the runtime does not change the job.
	AnnotationRuntime = "berth.dev/runtime"

	// AnnotationSucceeded, on a TrainJob, is how many of its pods have succeeded. Its status has no count of pods.
	AnnotationSucceeded = "berth.dev/succeeded"

	// AnnotationTopology, on a Pod of a gang, is how far apart the members with
	// GPUs may be: clique, node, fabric, rack, zone or cluster, the default.
	AnnotationTopology = "berth.dev/topology"

	// AnnotationRestartable, on a Pod or on the pod template of a Job, is "true" where
	// it may be ended and started elsewhere at any time. See
	// docs/background/preemption.md.
	AnnotationRestartable = "berth.dev/restartable"

	// AnnotationCheckpoint, on a Pod, or on a training job for its pods, is how the program saves its work:
	// "on-signal" when it is asked to stop ("on-signal:85" with the exit code that proves it), "periodic:10m" (or "10m") so often, or "none", the default.
	AnnotationCheckpoint = "berth.dev/checkpoint"

	// AnnotationCheckpointedAt, on a Pod, is when its program last saved its work: a time as in RFC 3339, which
	// the program sets. It counts for all pods of its gang.
	AnnotationCheckpointedAt = "berth.dev/checkpointed-at"

	// AnnotationProgress, on a training job or on one of its Pods, is how much of its work is done, as the program reports: a number
	// from 0 to 1, such as "0.42", or a percentage. See docs/training.md.
	AnnotationProgress = "berth.dev/progress"

	// AnnotationMaxRunTime, on a Pod, is how long it runs at most: a duration such as
	// "2h". Nothing ends it then; a place that is kept for another may wait for it.
	AnnotationMaxRunTime = "berth.dev/max-run-time"

	// AnnotationDataset, on a Pod, names the data that it reads, separated by
	// commas: it is placed where the data is, if it can be.
	AnnotationDataset = "berth.dev/dataset"

	// AnnotationDatasets, on a Node, names the data that it has, separated by
	// commas. A label of this name may name one.
	AnnotationDatasets = "berth.dev/datasets"

	// AnnotationSharesDo, on a Pod that asks for several nvidia.com/gpu or on a Node
	// that divides its GPUs, is "true" where shares serve such a request as well as
	// GPUs do. Elsewhere shares come last for it. See docs/reference/gpu-requests.md.
	AnnotationSharesDo = "berth.dev/shares-do"

	// AnnotationIdleAfter, on a Namespace, or on a Notebook, a training job, or an InferenceService, is after how long
	// without use it gives up its GPUs: notebooks are stopped, training jobs are suspended, and services have no replicas
	// until the next request. A duration such as "8h", or "never". The object goes before its Namespace, and for
	// notebooks AnnotationNotebookIdleAfter of the same object before this.
	AnnotationIdleAfter = "berth.dev/idle-after"

	// AnnotationSuspendedFor, on a training job that Berth has suspended because it was idle, is the sentence that says why.
	AnnotationSuspendedFor = "berth.dev/suspended-for"

	// AnnotationNotebookIdleAfter, on a Notebook or its Namespace, is after how long
	// without activity a notebook is stopped: a duration such as "90m", or "never".
	// What the Notebook says goes before what its Namespace says.
	AnnotationNotebookIdleAfter = "berth.dev/notebook-idle-after"

	// AnnotationNotebookIdleWarning, beside it, is how long before that its user is
	// warned: a duration.
	AnnotationNotebookIdleWarning = "berth.dev/notebook-idle-warning"

	// AnnotationNotebookIdleBy, beside it, is what counts as use: "activity", the
	// default, is all there is; "gpu" is the GPU, and kernels that are told of, so
	// that an open tab is none, and a server without a kernels API can be judged.
	AnnotationNotebookIdleBy = "berth.dev/notebook-idle-by"

	// AnnotationNotebookGivesWayAfter, beside it, is after how long without activity a
	// notebook may be stopped for workloads that wait, where its Queue has idle notebooks
	// give way: a duration such as "30m", or "never".
	AnnotationNotebookGivesWayAfter = "berth.dev/notebook-gives-way-after"

	// AnnotationNotebookGaveWay, on a Notebook that has given way, is the time of its stop
	// and the workload that it was stopped for, or NotebookReturns once it has been started again
	// and until it runs.
	AnnotationNotebookGaveWay = "berth.dev/notebook-gave-way"

	// NotebookReturns is the value of AnnotationNotebookGaveWay of a notebook that waits for
	// its turn.
	NotebookReturns = "returns"

	// AnnotationMaxSession, on a Notebook or its Namespace, is how long a notebook may
	// run without a stop, whether it is used or not: a duration such as "8h". The
	// shorter of the two applies.
	AnnotationMaxSession = "berth.dev/max-session"

	// AnnotationNotebookStopsAt, on a Notebook, is the time (RFC 3339) at which it
	// is stopped if nothing happens before, or at which its session ends. Berth writes
	// it with the warning, and takes it away when there is activity.
	AnnotationNotebookStopsAt = "berth.dev/notebook-stops-at"

	// AnnotationNotebookStoppedFor, on a Notebook that Berth has stopped, is the
	// sentence that says why.
	AnnotationNotebookStoppedFor = "berth.dev/notebook-stopped-for"

	// AnnotationNotebookProfile, on a Notebook, is the NotebookProfile that it was
	// made of, with its options: "slug" or "slug;option=choice;...".
	AnnotationNotebookProfile = "berth.dev/notebook-profile"

	// AnnotationNotebookToken, on a Notebook, says that its server takes a token from
	// Berth, so that who reaches its port alone is not in: TokenJupyter, in the
	// variable JUPYTER_TOKEN of the first container. The controller then adds one.
	AnnotationNotebookToken = "berth.dev/notebook-token"
	TokenJupyter            = "jupyter"

	// AnnotationNotebookSpec, on the StatefulSet of a Notebook, is the hash of what
	// it was made of, so that a change by the user is told from one by hand.
	AnnotationNotebookSpec = "berth.dev/notebook-spec"

	// LabelNotebookVolume, on a volume claim that `berth notebook create` has made,
	// is the name of the Notebook that it was made for.
	LabelNotebookVolume = "berth.dev/notebook"

	// AnnotationNotebookRetry, on the StatefulSet of a Notebook whose pod a quota
	// refused, is when Berth last had it retried (RFC 3339).
	AnnotationNotebookRetry = "berth.dev/notebook-retry"

	// LabelManagedBy, on a CustomResourceDefinition, says with the value "berth"
	// that Berth has put it there and may change it; on a PodDisruptionBudget with a
	// controller, that Berth writes it by default, so it does not count against preemption.
	LabelManagedBy = "berth.dev/managed-by"

	// AnnotationDefinition, on a CustomResourceDefinition of Berth's, is the hash of
	// the definition as Berth has written it.
	AnnotationDefinition = "berth.dev/definition"

	// LabelQueue, on a Namespace, names the Queue that its pods enter; on a Pod or an object that
	// creates it, that of the pod, if the Queue takes labeled pods of its namespace.
	LabelQueue = "berth.dev/queue"

	// AnnotationResume, on a suspended Job or training job, says with the value ResumeInTurn that Berth's
	// scheduler is to resume it when there are quota and nodes for its pods.
	AnnotationResume = "berth.dev/resume"
	ResumeInTurn     = "in-turn"

	// AnnotationResumed, on such an object, is when the scheduler has resumed it (RFC 3339). One
	// that is suspended and has it was suspended by someone else afterwards, and is left
	// alone until it is removed.
	AnnotationResumed = "berth.dev/resumed"

	// AnnotationMinParallelism, on a Job that waits so, is with how few pods at once it may start, as
	// AnnotationKueueMinParallelism.
	AnnotationMinParallelism = "berth.dev/min-parallelism"

	// AnnotationParallelism, on a Job that the scheduler has started with fewer pods, is its
	// spec.parallelism before.
	AnnotationParallelism = "berth.dev/parallelism"

	// LabelPool, on a Node, names the declared pool that it is of; labels of clouds
	// do as well.
	LabelPool = "berth.dev/pool"

	// LabelRack, on a Node, names the rack that it is in, unique in its zone.
	LabelRack = "berth.dev/rack"
)

// Names that others own and Berth reads or, in the fleet, writes.
const (
	// ResourceGPU is NVIDIA's resource for whole or unrenamed shared GPUs.
	ResourceGPU = "nvidia.com/gpu"
	// ResourceGPUShared is the renamed resource of shared GPUs.
	ResourceGPUShared = "nvidia.com/gpu.shared"
	// ResourceMIGPrefix precedes a MIG profile in mixed strategy.
	ResourceMIGPrefix = "nvidia.com/mig-"
	// ResourceGPUMemory is Berth's resource for a share by memory, in whole GiB.
	ResourceGPUMemory = "nvidia.com/gpu-memory"

	// ResourceHAMiMemory is HAMi's resource for memory of each GPU, in MiB.
	ResourceHAMiMemory = "nvidia.com/gpumem"
	// ResourceHAMiPercentage is HAMi's for memory of each GPU, in percent of it.
	ResourceHAMiPercentage = "nvidia.com/gpumem-percentage"
	// ResourceHAMiCores is HAMi's for compute of each GPU, in percent of it.
	ResourceHAMiCores = "nvidia.com/gpucores"

	// ResourceVolcanoNumber is Volcano's resource for shares, each of another GPU.
	ResourceVolcanoNumber = "volcano.sh/vgpu-number"
	// ResourceVolcanoMemory is Volcano's for memory of each GPU, in MiB.
	ResourceVolcanoMemory = "volcano.sh/vgpu-memory"
	// ResourceVolcanoPercentage is Volcano's for memory of each GPU, in percent.
	ResourceVolcanoPercentage = "volcano.sh/vgpu-memory-percentage"
	// ResourceVolcanoCores is Volcano's for compute of each GPU, in percent.
	ResourceVolcanoCores = "volcano.sh/vgpu-cores"

	// AnnotationKAIFraction is KAI's annotation for a part of one GPU: "0.5".
	AnnotationKAIFraction = "gpu-fraction"
	// AnnotationKAIMemory is KAI's annotation for memory of one GPU, in MiB.
	AnnotationKAIMemory = "gpu-memory"
	// AnnotationKAIDevices is KAI's annotation for of how many GPUs a pod gets
	// what the two above say; without it of one.
	AnnotationKAIDevices = "gpu-fraction-num-devices"
	// AnnotationKAIContainer is KAI's annotation for which container gets them;
	// without it the first that is not an init container.
	AnnotationKAIContainer = "gpu-fraction-container-name"

	// LabelProduct is GPU Feature Discovery's label for the GPU model.
	LabelProduct = "nvidia.com/gpu.product"
	// LabelCount is GPU Feature Discovery's label for physical GPUs.
	LabelCount = "nvidia.com/gpu.count"
	// LabelMemory is GPU Feature Discovery's label for memory of one GPU, MiB.
	LabelMemory = "nvidia.com/gpu.memory"
	// LabelReplicas is GPU Feature Discovery's label for shares per GPU.
	LabelReplicas = "nvidia.com/gpu.replicas"
	// LabelPluginConfig selects a key of the device plugin's ConfigMap.
	LabelPluginConfig = "nvidia.com/device-plugin.config"
	// LabelMIGConfig names the MIG configuration that a node's GPUs are partitioned
	// by, as for NVIDIA's MIG manager. It belongs to people.
	LabelMIGConfig = "nvidia.com/mig.config"
	// LabelMIGState is how far that is: a core/mig.State.
	LabelMIGState = "nvidia.com/mig.config.state"

	// AnnotationStopped is Kubeflow's annotation that stops a notebook, whatever its
	// value; those who write it put the time (RFC 3339) there.
	AnnotationStopped = "kubeflow-resource-stopped"
	// AnnotationLastActivity is Kubeflow's annotation for when something last
	// happened in a notebook (RFC 3339).
	AnnotationLastActivity = "notebooks.kubeflow.org/last-activity"
	// AnnotationActivityCheck is Kubeflow's for when that was last looked at.
	AnnotationActivityCheck = "notebooks.kubeflow.org/last_activity_check_timestamp"
	// AnnotationServerType is Kubeflow's for what serves the notebook: jupyter,
	// group-one (VS Code) or group-two (RStudio).
	AnnotationServerType = "notebooks.kubeflow.org/server-type"
	// AnnotationRewrite is Kubeflow's for the path that a VirtualService rewrites
	// the notebook's prefix to.
	AnnotationRewrite = "notebooks.kubeflow.org/http-rewrite-uri"
	// AnnotationHeaders is Kubeflow's for request headers that a VirtualService
	// sets, as a JSON object.
	AnnotationHeaders = "notebooks.kubeflow.org/http-headers-request-set"
	// LabelNotebook is Kubeflow's label on the pod of a notebook.
	LabelNotebook = "notebook-name"
	// LabelStatefulSet is Kubeflow's label by which a notebook's StatefulSet and
	// Service select its pod.
	LabelStatefulSet = "statefulset"

	// LabelComponent is, with ComponentHubServer, the label of the pods of a JupyterHub's users.
	LabelComponent     = "component"
	ComponentHubServer = "singleuser-server"
	// AnnotationHubUser is JupyterHub's annotation for the user of a pod.
	AnnotationHubUser = "hub.jupyter.org/username"
	// AnnotationCreator is Kubeflow's annotation for who made a notebook.
	AnnotationCreator = "notebooks.kubeflow.org/creator"

	// AnnotationRollout, on an InferenceService, is how a new revision of it takes the place of the one before: a name of
	// core/serving.Rollouts.
	AnnotationRollout = "berth.dev/rollout"
	// AnnotationDisruptionBudget, on an InferenceService, says with the value "none" that Berth writes no PodDisruptionBudget for it while
	// its replicas stay where they are.
	AnnotationDisruptionBudget = "berth.dev/disruption-budget"
	// AnnotationScaleToZeroAfter, on an InferenceService with minReplicas 0, is how long after the last request, and after it was
	// ready, its last replica ends: a duration such as "10m". AnnotationScaleDownAfter is how long fewer replicas must have been
	// enough before one ends.
	AnnotationScaleToZeroAfter = "berth.dev/scale-to-zero-after"
	AnnotationScaleDownAfter   = "berth.dev/scale-down-after"
	// AnnotationServingSpec, on the Deployment of an InferenceService, is a hash of all that Berth wrote, and on its pods a
	// hash of their template.
	AnnotationServingSpec = "berth.dev/serving-spec"
	// AnnotationMoving, on the Deployment of an InferenceService, is how many of its replicas are there only while others leave their
	// nodes: a number.
	AnnotationMoving = "berth.dev/moving"
	// AnnotationStartedIn, on a pod of an InferenceService, is how long it took to be ready for the first time, by phase.
	AnnotationStartedIn = "berth.dev/started-in"
	// AnnotationRolledOut, on the ControllerRevision of a revision of an InferenceService, is when all replicas last began to be of it: a
	// time of RFC 3339.
	AnnotationRolledOut = "berth.dev/rolled-out"
	// AnnotationBackedOut, on the ControllerRevision of a canary of an InferenceService, is why it was backed out, and its share:
	// core/serving.BackOut as JSON.
	AnnotationBackedOut = "berth.dev/backed-out"
	// AnnotationCanaryLimits, on an InferenceService, says when a canary is backed out: see core/serving.ParseCanaryLimits.
	AnnotationCanaryLimits = "berth.dev/canary-limits"
	// AnnotationSplit, on a Service of an InferenceService, is the revision of its canary and the share of the requests that goes to it,
	// in percent: "<revision>=<percent>".
	AnnotationSplit = "berth.dev/split"
	// AnnotationConcurrency, on a Service of an InferenceService, is how many requests one replica has at once at most.
	AnnotationConcurrency = "berth.dev/concurrency"
	// LabelCanary, with the value "true", is on the Deployment, the Service, and the pods of a canary.
	LabelCanary = "berth.dev/canary"

	// AnnotationSimulatedFiles, on a PersistentVolumeClaim of the simulated fleet, lists the files that its volume is to have, with
	// spaces between them: a simulated model server looks for its model among them. Without it, a model is there.
	AnnotationSimulatedFiles = "berth.dev/simulated-files"

	// LabelInferenceService is KServe's label on the pods of an InferenceService, and LabelKnativeService
	// Knative's on those of a Service.
	LabelInferenceService = "serving.kserve.io/inferenceservice"
	LabelKnativeService   = "serving.knative.dev/service"

	// LabelTopologyRack is the label that clusters commonly use for racks.
	LabelTopologyRack = "topology.kubernetes.io/rack"
	// LabelFabric is GPU Feature Discovery's label for the NVLink fabric over
	// several nodes that a node's GPUs are on: "<cluster UUID>.<clique>".
	LabelFabric = "nvidia.com/gpu.clique"
	// LabelPodGroup names a pod's PodGroup of scheduling.x-k8s.io.
	LabelPodGroup = "scheduling.x-k8s.io/pod-group"
	// AnnotationVolcanoGroup and AnnotationVolcanoGroupOwn name a pod's PodGroup
	// of scheduling.volcano.sh; either will do.
	AnnotationVolcanoGroup    = "scheduling.k8s.io/group-name"
	AnnotationVolcanoGroupOwn = "scheduling.volcano.sh/group-name"
	// AnnotationKAIGroup names a pod's PodGroup of scheduling.run.ai.
	AnnotationKAIGroup = "pod-group-name"
	// LabelKueueQueue names the Kueue LocalQueue of a pod, or of the object that creates it. Where Kueue runs, it
	// suspends and resumes such objects; elsewhere the label is read as the name of a Queue.
	LabelKueueQueue = "kueue.x-k8s.io/queue-name"
	// LabelKAIQueue names the KAI queue of a pod, or of the object that creates it.
	LabelKAIQueue = "kai.scheduler/queue"
	// AnnotationVolcanoQueue names the Volcano queue of a pod, or of the object that creates it. The controller of Volcano's
	// Jobs, and Ray's operator, write KeyVolcanoQueue, a label or an annotation.
	AnnotationVolcanoQueue = "scheduling.volcano.sh/queue-name"
	KeyVolcanoQueue        = "volcano.sh/queue-name"
	// LabelKueuePriority names the WorkloadPriorityClass of a pod, or of the object that creates it.
	LabelKueuePriority = "kueue.x-k8s.io/priority-class"
	// AnnotationKueueMinParallelism is Kueue's annotation for with how few pods at once a Job
	// may start.
	AnnotationKueueMinParallelism = "kueue.x-k8s.io/job-min-parallelism"
	// LabelJobSet names the JobSet that a pod is of.
	LabelJobSet = "jobset.sigs.k8s.io/jobset-name"
)

// PoolLabels are the labels by which nodes name their pool, Berth's first: what clouds,
// eksctl, kops and Karpenter set. A node is of the pool that one of them names.
var PoolLabels = []string{
	LabelPool, "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name",
	"kubernetes.azure.com/agentpool", "agentpool", "karpenter.sh/nodepool", "kops.k8s.io/instancegroup",
}

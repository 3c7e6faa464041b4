package explain

// withoutPods are the causes for which a workload has no pod.
var withoutPods = []Entry{
	{
		Code: CodeQuota, Title: "A ResourceQuota of the namespace refuses the pod",
		Proof: "the event FailedCreate of the pod's owner, and `kubectl describe quota`",
		Helps: "stop something that counts against the quota, ask for less, or ask an administrator for a larger quota",
		Ask:   "deployment/a01",
	},
	{
		Code: CodeLimitRange, Title: "A LimitRange of the namespace does not allow the request",
		Proof: "the event FailedCreate of the pod's owner, and `kubectl describe limitrange`",
		Helps: "ask for as much as the LimitRange allows in a container, and use several pods",
		Ask:   "deployment/a02",
	},
	{
		Code: CodeInvalid, Title: "The request is not valid, so its pod cannot be created",
		Proof:  "the event FailedCreate of the pod's owner, with the field",
		Helps:  "write GPUs as limits only, in whole numbers; ask for a share with nvidia.com/gpu-memory",
		Ask:    "deployment/a03",
		Unmade: "`kubectl apply` says the same at once, for every kind that Kubernetes runs",
	},
	{
		Code: CodeRefused, Title: "A rule of the cluster refuses the pod: Pod Security, an admission policy, or a webhook",
		Proof: "the event FailedCreate of the pod's owner, which names the rule",
		Helps: "change what the rule names, or use a namespace with another level",
		Ask:   "deployment/a04 -n a04",
	},
	{
		Code: CodeStopped, Title: "It is stopped, or has no replicas",
		Proof: "spec.replicas, or the annotation kubeflow-resource-stopped",
		Helps: "start it: the message has the command",
		Ask:   "deployment/a05",
	},
	{
		Code: CodeController, Title: "No controller has looked at the object",
		Proof:  "status.observedGeneration is missing, and there are no events",
		Helps:  "start the controller of that kind, or install it",
		Ask:    "deployment/a06",
		Unmade: "`berth up` runs all controllers of Kubernetes",
	},
	{
		Code: CodeReference, Title: "The ServiceAccount or the PriorityClass that it names does not exist",
		Proof: "the event FailedCreate of the pod's owner",
		Helps: "create it, or remove the name",
		Ask:   "deployment/a07",
	},
	{
		Code: CodeQueueMissing, Title: "The queue that it names does not exist or is inactive",
		Proof:  "the condition QuotaReserved of its Kueue Workload",
		Helps:  "name a queue of `kubectl get localqueues` in the label kueue.x-k8s.io/queue-name",
		Ask:    "job/a08",
		Unmade: "Kueue is not part of it",
	},
	{
		Code: CodeWebhook, Title: "An admission webhook does not answer",
		Proof: "the event FailedCreate of the pod's owner, which names the webhook",
		Helps: "see that the Service of the webhook has ready pods, or delete its configuration",
		Ask:   "deployment/a09",
	},
	{
		Code: CodeQuotaUnsaid, Title: "A ResourceQuota wants every container to say what it needs",
		Proof: "the event FailedCreate of the pod's owner: failed quota",
		Helps: "add the requests or limits that the message names, or a LimitRange with defaults",
		Ask:   "deployment/a10",
	},
	{
		Code: CodeSchedule, Title: "It is a CronJob whose time has not come",
		Proof: "spec.schedule and status.lastScheduleTime",
		Helps: "wait, or start it now: the message has the command",
		Ask:   "cronjob/a11",
	},
	{
		Code: CodeDaemonSet, Title: "It is a DaemonSet, and no node is for it",
		Proof: "status.desiredNumberScheduled is 0",
		Helps: "change its node selector, affinity, or tolerations, or label nodes",
		Ask:   "daemonset/a12",
	},
	{
		Code: CodeNamespaceEnds, Title: "The namespace is being deleted",
		Proof:  "the event FailedCreate of the pod's owner, and `kubectl get namespace`",
		Helps:  "use another namespace; if it stays, see its conditions for what keeps it",
		Ask:    "job/a13 -n a13",
		Unmade: "it takes an object that is created while its namespace is being deleted",
	},
	{
		Code: CodeRights, Title: "The controller may not create the pod",
		Proof:  "the event FailedCreate of the pod's owner: cannot create resource",
		Helps:  "an administrator grants the right with a Role and a RoleBinding",
		Ask:    "deployment/a14",
		Unmade: "the controllers of `berth up` have all rights",
	},
	{
		Code: CodeNameTaken, Title: "An object of a name that it needs belongs to something else",
		Proof: "the event FailedCreate of the pod's owner: already exists, or the conditions of a Notebook",
		Helps: "delete or rename the other object",
		Ask:   "notebook/a15",
	},
	{
		Code: CodePaused, Title: "Its rollout is paused",
		Proof: "spec.paused",
		Helps: "resume it: `kubectl rollout resume`",
		Ask:   "deployment/a16",
	},
	{
		Code: CodeSuspended, Title: "It is suspended",
		Proof: "spec.suspend",
		Helps: "resume it: the message has the command; if a queue suspends it, wait for the queue",
		Ask:   "job/a17",
	},
	{
		Code: CodePriorityClass, Title: "Its priority contradicts its PriorityClass",
		Proof: "the event FailedCreate of the pod's owner",
		Helps: "write priorityClassName only",
		Ask:   "deployment/a18",
	},
}

// heldBackOnPurpose are the causes for which a pod is not to start yet.
var heldBackOnPurpose = []Entry{
	{
		Code: CodeGate, Title: "A scheduling gate holds the pod, so no scheduler looks at it",
		Proof: "spec.schedulingGates of the pod",
		Helps: "wait for the controller that set the gate, or remove it by hand",
		Ask:   "b01",
	},
	{
		Code: CodeQueueQuota, Title: "Its queue has no quota left",
		Proof: "the condition PodScheduled: WaitingForQuota; of Kueue, the condition QuotaReserved of its Workload",
		Helps: "wait until others of the queue end, ask for less, or ask for a larger quota",
		Ask:   "b02",
	},
	{
		Code: CodeQueueNever, Title: "Its queue can never admit it, because it asks for more than the queue's quota",
		Proof:  "the condition QuotaReserved of its Kueue Workload",
		Helps:  "ask for less, or ask for a larger quota; waiting does not help",
		Ask:    "job/b03",
		Unmade: "Kueue is not part of it",
	},
	{
		Code: CodeQueueFlavor, Title: "No flavor of its queue fits it",
		Proof:  "the condition QuotaReserved of its Kueue Workload",
		Helps:  "change its node selector, or add the toleration that the message names",
		Ask:    "job/b04",
		Unmade: "Kueue is not part of it",
	},
	{
		Code: CodeGang, Title: "The pods of its gang start together, and do not all fit",
		Proof: "the sums of what the members ask for, and of what is free",
		Helps: "ask for fewer or smaller pods, wait, or add nodes",
		Ask:   "job/b05",
	},
	{
		Code: CodeQueueCheck, Title: "An admission check of its queue is pending",
		Proof:  "status.admissionChecks of its Kueue Workload",
		Helps:  "wait for the controller of the check, such as a provisioning request",
		Ask:    "job/b06",
		Unmade: "Kueue is not part of it",
	},
	{
		Code: CodeScheduler, Title: "No scheduler of the name that the pod has looks at it",
		Proof: "the pod has neither a condition PodScheduled nor an event",
		Helps: "set schedulerName to a scheduler that runs, or start that one",
		Ask:   "b07", Make: "it takes ten seconds",
	},
	{
		Code: CodePreempting, Title: "Room is being made for it",
		Proof: "the condition PodScheduled, and status.nominatedNodeName",
		Helps: "wait until the pods that are being stopped have ended",
		Ask:   "b08",
	},
	{
		Code: CodePreempted, Title: "It was preempted or evicted",
		Proof:  "the condition DisruptionTarget of the pod",
		Helps:  "wait until it starts again; a pod without an owner must be created again",
		Ask:    "b09",
		Unmade: "an evicted pod is deleted there at once",
	},
	{
		Code: CodeFairShare, Title: "Its queue has more than its fair share",
		Proof:  "the condition PodScheduled, written by the scheduler of the queue",
		Helps:  "wait, or use a workload that may be preempted",
		Ask:    "b10",
		Unmade: "the scheduler of such queues is not part of it",
	},
	{
		Code: CodeTurn, Title: "There is room for it, and a pod that came first and asks for the same takes it",
		Proof:  "the condition PodScheduled: WaitingForTurn",
		Helps:  "wait: it is its turn next",
		Ask:    "b13",
		Unmade: "it lasts for moments, while several equal pods are placed one after the other",
	},
	{
		Code: CodeGangTooLarge, Title: "Its gang asks for more than the nodes that it may use have",
		Proof: "the sum of what the members ask for, and of what nodes have",
		Helps: "ask for fewer or smaller pods, or add nodes; waiting does not help",
		Ask:   "job/b14",
	},
	{
		Code: CodeGangMissing, Title: "Pods of its gang do not exist yet",
		Proof: "the condition PodScheduled: how many of how many exist",
		Helps: "create the rest, or lower berth.dev/gang-min-count",
		Ask:   "b15",
	},
	{
		Code: CodeGangInvalid, Title: "The size of its gang is not known",
		Proof: "the condition PodScheduled",
		Helps: "add the annotation berth.dev/gang-min-count to its pods",
		Ask:   "b16",
	},
	{
		Code: CodeKept, Title: "GPUs are being kept for a pod that has waited longer",
		Proof:  "the condition PodScheduled, which names that pod",
		Helps:  "wait until that pod has started, or use a higher PriorityClass if you may",
		Ask:    "b17",
		Unmade: "it takes pods that come and go while a larger one waits",
	},
	{
		Code: CodeQueueStopped, Title: "Its queue is stopped, or its budget is spent, so it admits no pods",
		Proof: "spec.stop or status.budget of its Queue, or of one above it",
		Helps: "wait, or ask an administrator to set spec.stop to None, or to raise spec.budget",
		Ask:   "b18 -n b18",
	},
	{
		Code: CodeUserLimit, Title: "Its user holds as many GPUs as the queue allows for each user",
		Proof: "spec.perUser of its Queue, or of one above it, and `berth queue show`",
		Helps: "stop another pod of the same user, or ask an administrator for a higher limit",
		Ask:   "b19 -n b19",
	},
	{
		Code: CodeQueueSharing, Title: "Its queue does not allow the way in which it would use GPUs",
		Proof: "spec.sharing of its Queue, or of one above it, and how nodes offer their GPUs: `berth nodes`",
		Helps: "ask for GPUs in a way that the queue allows, or ask an administrator to allow this one; waiting does not help",
		Ask:   "b20 -n b20",
	},
}

// unscaled are the causes for which an autoscaler adds no node.
var unscaled = []Entry{
	{
		Code: CodeNoAutoscaler, Title: "A declared node pool could grow for it, and no autoscaler makes it grow",
		Proof: "the ConfigMap berth-pools, no event of an autoscaler about the pod, and no autoscaler in the cluster",
		Helps: "an administrator adds a node to the pool, or installs Cluster Autoscaler or Karpenter",
		Ask:   "d01",
		Make:  "it takes half a minute",
	},
	{
		Code: CodeTemplate, Title: "The autoscaler believes that new nodes have no GPU",
		Proof: "the event NotTriggerScaleUp: Insufficient nvidia.com/gpu",
		Helps: "tell the autoscaler of the GPUs in the group's template, as with the tag k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu",
		Ask:   "d02",
	},
	{
		Code: CodeGroupFull, Title: "Node groups are as large as they may become",
		Proof: "the event NotTriggerScaleUp: max node group size reached",
		Helps: "an administrator raises the limit of the group or NodePool",
		Ask:   "d03",
	},
	{
		Code: CodeCloudQuota, Title: "The cloud account's quota allows no more such nodes",
		Proof: "the event FailedScaleUp with the name of the quota",
		Helps: "ask the cloud for a larger quota in that region",
		Ask:   "d04",
	},
	{
		Code: CodeStockOut, Title: "The cloud has no such machines free",
		Proof: "the event FailedScaleUp: InsufficientInstanceCapacity, or the like",
		Helps: "allow other zones, other machine types, or on-demand machines",
		Ask:   "d05",
	},
	{
		Code: CodeNoGroup, Title: "A new node of no node group would do",
		Proof: "the event NotTriggerScaleUp, or Karpenter's FailedScheduling",
		Helps: "add a node group that fits, or change the selector or the tolerations",
		Ask:   "d06",
	},
	{
		Code: CodeNodeComes, Title: "A new node is on its way",
		Proof: "the event TriggeredScaleUp or Nominated",
		Helps: "wait: a GPU node usually takes some minutes until its driver is ready",
		Ask:   "d07",
	},
	{
		Code: CodeNodeJoins, Title: "A new node has joined, and offers no GPU yet",
		Proof: "status.capacity of the node, its labels, and metadata.creationTimestamp",
		Helps: "wait some minutes for its driver and device plugin; after ten minutes `berth why` says what it lacks",
		Ask:   "d08",
		Make:  "within a minute, until Kubernetes finds that no kubelet reports for the node; then run the command at its head",
	},
	{
		Code: CodeScaleUpFailed, Title: "A new node was asked for, and the cloud refused it",
		Proof: "the event FailedScaleUp",
		Helps: "see the autoscaler's log",
		Ask:   "d09",
	},
}

// outranked are the causes for which priority gets a pod no place.
var outranked = []Entry{
	{
		Code: CodeLowPriority, Title: "Its priority preempts no pod, because all have the same or a higher one",
		Proof: "spec.priority of the pods that hold the GPUs",
		Helps: "wait, or use a higher PriorityClass if you may",
		Ask:   "e01",
	},
	{
		Code: CodeNeverPreempts, Title: "Its preemptionPolicy is Never, so pods of lower priority stay",
		Proof: "spec.preemptionPolicy of the pod",
		Helps: "wait, or use a PriorityClass that preempts",
		Ask:   "e02",
	},
	{
		Code: CodeBudget, Title: "A disruption budget keeps pods of lower priority",
		Proof: "`kubectl get poddisruptionbudgets -A`",
		Helps: "wait, or let the owner of the budget allow a disruption",
		Ask:   "e03",
	},
	{
		Code: CodeDefaultClass, Title: "The GPUs are held by pods whose priority is that of the default PriorityClass",
		Proof: "globalDefault of `kubectl get priorityclasses`, and spec.priority of the holders",
		Helps: "use a higher PriorityClass if you may; an administrator lowers the value of the default class, which changes new pods only",
		Ask:   "e04",
	},
}

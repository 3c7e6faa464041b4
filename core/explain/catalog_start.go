package explain

// notRunning are the causes for which a pod that has a node does not run.
var notRunning = []Entry{
	{
		Code: CodeAdmission, Title: "The kubelet could not allocate its GPUs",
		Proof: "the pod failed with UnexpectedAdmissionError",
		Helps: "create it again through a scheduler; if it repeats, restart the device plugin",
		Ask:   "f01",
	},
	{
		Code: CodePulling, Title: "The image is being pulled",
		Proof: "the container's state and the event Pulling",
		Helps: "wait; pull large images before they are needed",
		Make:  "apply any pod: its image takes 0.4 seconds, which few see",
	},
	{
		Code: CodeImage, Title: "The image does not exist",
		Proof: "the container waits with ErrImagePull or ImagePullBackOff: not found",
		Helps: "correct the name or tag",
		Ask:   "f03",
	},
	{
		Code: CodeConfig, Title: "A Secret or ConfigMap that a container names does not exist",
		Proof: "the container waits with CreateContainerConfigError",
		Helps: "create it in the namespace of the pod",
		Ask:   "f04",
	},
	{
		Code: CodeMount, Title: "A volume cannot be attached or mounted",
		Proof: "the event FailedAttachVolume or FailedMount",
		Helps: "stop what uses the volume on another node; else see the storage driver's pod on the node",
		Ask:   "f05",
	},
	{
		Code: CodeRuntime, Title: "The node has no runtime for its RuntimeClass",
		Proof: "the event FailedCreatePodSandBox: no runtime is configured",
		Helps: "configure the NVIDIA container toolkit on the node, or remove runtimeClassName",
		Ask:   "f06",
	},
	{
		Code: CodeCUDA, Title: "The image needs a newer CUDA than the node's driver gives",
		Proof: "the container's message: unsatisfied condition: cuda",
		Helps: "use an image for an older CUDA, or update the driver",
		Ask:   "f07",
	},
	{
		Code: CodeCrash, Title: "A container ends again and again, or cannot be created",
		Proof: "the container's last state, and `kubectl logs --previous`",
		Helps: "read its log, and correct the cause",
		Ask:   "f08",
	},
	{
		Code: CodeInitBlocks, Title: "An init container has not ended, or fails",
		Proof: "the states of init containers",
		Helps: "read its log: `kubectl logs -c INIT`",
		Ask:   "f09",
	},
	{
		Code: CodeFailed, Title: "It ran and failed",
		Proof: "the condition Failed of the Job, and the exit code of the last container",
		Helps: "read its log, correct the cause, and create it again",
		Ask:   "job/f10",
	},
	{
		Code: CodeRegistry, Title: "The registry does not let the cluster have the image",
		Proof: "the container waits with ErrImagePull: unauthorized or denied",
		Helps: "create a pull secret, and name it in imagePullSecrets",
		Ask:   "f11",
	},
	{
		Code: CodeRateLimit, Title: "The registry limits how often images are pulled",
		Proof: "the container waits with ErrImagePull: toomanyrequests",
		Helps: "wait, log in to the registry with a pull secret, or use a mirror",
		Ask:   "f12",
	},
	{
		Code: CodeImageName, Title: "The name of the image is not valid",
		Proof: "the container waits with InvalidImageName",
		Helps: "correct the name",
		Ask:   "f13",
	},
	{
		Code: CodeNeverPull, Title: "The image must not be pulled, and is not on the node",
		Proof: "the container waits with ErrImageNeverPull",
		Helps: "load the image on the node, or change imagePullPolicy",
		Ask:   "f14",
	},
	{
		Code: CodeUnreachable, Title: "The registry cannot be reached",
		Proof: "the container waits with ErrImagePull, with a network error",
		Helps: "see the network, name service, and proxy of the node",
		Ask:   "f15",
	},
	{
		Code: CodeSandbox, Title: "The node cannot set up the pod's network or sandbox",
		Proof: "the event FailedCreatePodSandBox",
		Helps: "see the network plugin's pod and the container runtime on the node",
		Ask:   "f16",
	},
	{
		Code: CodeCommand, Title: "The command is not in the image",
		Proof: "exit code 127 or 126, or: executable file not found",
		Helps: "correct command, or use another image",
		Ask:   "f17",
	},
	{
		Code: CodeOutOfMemory, Title: "A container used more memory of the node than its limit",
		Proof: "the last state OOMKilled",
		Helps: "raise its memory limit: it is not the GPU's memory",
		Ask:   "f18",
	},
	{
		Code: CodeNotReadyYet, Title: "It runs, and does not answer as ready",
		Proof: "the event Unhealthy of its readiness or startup probe",
		Helps: "wait, read its log, or correct the probe",
		Ask:   "f19",
	},
	{
		Code: CodeLiveness, Title: "Its liveness probe fails, so it is started again and again",
		Proof: "the event Unhealthy: Liveness probe failed",
		Helps: "correct the probe, or give it more time",
		Ask:   "f20",
	},
	{
		Code: CodeEvicted, Title: "The node evicted it for lack of memory or disk",
		Proof: "the pod failed with Evicted",
		Helps: "ask for as much as it uses, and create it again",
		Ask:   "f21",
	},
	{
		Code: CodeDeadline, Title: "It ran longer than its activeDeadlineSeconds",
		Proof: "the pod failed with DeadlineExceeded",
		Helps: "raise the deadline, or let it do less",
		Ask:   "f22",
	},
	{
		Code: CodeNonRoot, Title: "It may not run as root, and its image does",
		Proof: "the container waits with CreateContainerConfigError: runAsNonRoot",
		Helps: "set runAsUser, or use another image",
		Ask:   "f23",
	},
	{
		Code: CodeReadyGate, Title: "Its containers are ready, and a readiness gate is not",
		Proof: "spec.readinessGates, and the condition of that name",
		Helps: "see the controller that sets the condition",
		Ask:   "f24",
	},
	{
		Code: CodeDeleting, Title: "A finalizer keeps it while it is being deleted",
		Proof: "metadata.finalizers",
		Helps: "see the controller of the finalizer, or remove the finalizer by hand",
		Ask:   "f25",
	},
	{
		Code: CodeNodeLost, Title: "Its node does not report",
		Proof: "the condition Ready of the node is Unknown",
		Helps: "repair the node; if it is gone, `kubectl delete pod --force`",
		Ask:   "f26",
	},
	{
		Code: CodeKubelet, Title: "The kubelet refused it, because the node had no room or was not for it",
		Proof: "the pod failed with OutOfcpu, OutOfmemory, NodeAffinity, or the like",
		Helps: "create it again through a scheduler, without nodeName",
		Ask:   "f27",
	},
	{
		Code: CodeCDI, Title: "The node does not know the CDI device of its GPU",
		Proof: "the container's message: unresolvable CDI devices",
		Helps: "see the device plugin and the CDI specifications of the node",
		Ask:   "f28",
	},
	{
		Code: CodeVolumeConfig, Title: "A Secret or ConfigMap that a volume shows does not exist",
		Proof: "the event FailedMount",
		Helps: "create it in the namespace of the pod",
		Ask:   "f29",
	},
}

// withoutGPUs are the causes for which a pod runs without a GPU that works.
var withoutGPUs = []Entry{
	{
		Code: CodeNoRequest, Title: "It runs an image for GPUs, and asks for none",
		Proof: "resources.limits of its containers",
		Helps: "add the limit nvidia.com/gpu: 1",
		Ask:   "g01",
	},
	{
		Code: CodeFramework, Title: "Its framework cannot use the GPU",
		Proof: "the last words of the container: not compiled with CUDA, or driver version is insufficient",
		Helps: "install a build for CUDA that the driver supports",
		Ask:   "g02",
	},
	{
		Code: CodeCapabilities, Title: "NVIDIA_DRIVER_CAPABILITIES leaves out what CUDA needs",
		Proof: "env of the container",
		Helps: "set it to compute,utility",
		Ask:   "g03",
	},
	{
		Code: CodeForeignGPUs, Title: "It uses GPUs that it does not hold: NVIDIA_VISIBLE_DEVICES without a request",
		Proof: "env of the container",
		Helps: "remove the variable and ask for nvidia.com/gpu; let the toolkit accept devices from the plugin only",
		Ask:   "g04",
	},
	{
		Code: CodeHostIndex, Title: "CUDA_VISIBLE_DEVICES names more GPUs than the container has",
		Proof: "env of the container beside its limits",
		Helps: "remove the variable: the container's GPUs count from 0",
		Ask:   "g05",
	},
	{
		Code: CodeNVMLLost, Title: "A container lost its GPUs while it ran",
		Proof: "the last words of the container: Failed to initialize NVML: Unknown Error",
		Helps: "start it again, and update the container toolkit",
		Ask:   "g06",
	},
	{
		Code: CodeGPUOutOfMem, Title: "The memory of its GPU is full",
		Proof: "the last words of the container: CUDA out of memory",
		Helps: "use a smaller batch, a GPU with more memory, or one that it does not share",
		Ask:   "g07",
	},
	{
		Code: CodeDeviceLost, Title: "Its GPU failed while it ran",
		Proof: "allocatedResourcesStatus of the container: Unhealthy",
		Helps: "drain the node, and reset or replace the GPU as its Xid demands",
		Ask:   "g08",
	},
	{
		Code: CodeProcesses, Title: "It starts another number of processes than it has GPUs",
		Proof: "--nproc-per-node of its command beside its limits",
		Helps: "start as many processes as it has GPUs, or ask for as many GPUs",
		Ask:   "g10",
	},
	{
		Code: CodeMIGStrategy, Title: "The nodes offer their MIG devices as nvidia.com/gpu",
		Proof: "the label nvidia.com/mig.strategy=single",
		Helps: "ask for nvidia.com/gpu",
		Ask:   "g11",
	},
	{
		Code: CodeShares, Title: "It asked for several GPUs, and got shares of them",
		Proof: "the annotation berth.dev/devices",
		Helps: "ask for 1, or select a node with whole GPUs",
		Ask:   "g12",
	},
}

package fleet

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/api"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/fleet/kubelet/shell"
)

// invalidSimulation is why a container ends whose annotation berth.dev/simulate
// cannot be read.
const invalidSimulation = "InvalidSimulation"

// How long a container runs when nothing says so.
const (
	batchDuration = 30 * time.Second // of Jobs, and pods that are not always restarted
	initDuration  = time.Second      // of an init container

	stepEvery = 10 * time.Second // between the lines of a training job that say its step and loss
	lineSteps = 10               // steps between them
)

// Plan is what one run of a container does. It depends on nothing but the
// arguments of Behave, so it can be worked out again at any time.
type Plan struct {
	Forever  bool          // runs until it is stopped; Duration then means nothing
	Duration time.Duration // from its start to its end
	ExitCode int32
	Reason   string // why it ended, where "Completed" and "Error" do not say it
	Message  string // of the ended container
	// Steps are what it prints, in order of After. With Every above 0 they are
	// printed again each Every until the end.
	Steps []Step
	Every time.Duration
	// Pauses are when it stood still, in their order: what comes after one comes later by as much.
	Pauses []Pause
	// UtilizationRatio (0-1 of its devices) and MemoryBytes (of each device)
	// hold until the first point of Curve.
	UtilizationRatio float64
	MemoryBytes      int64
	Curve            []fakegpu.Point
	// CPUMilli is the CPU that it uses, in thousandths of a core, up to its limit; 0 is as
	// much as its utilization makes likely.
	CPUMilli int64
	// Idle says that it uses next to no CPU and memory, as sleep does.
	Idle bool
	// Stop is how long it takes to end after it is asked to, at most its pod's grace
	// period; 0 is stopTime.
	Stop time.Duration
	// Jupyter says that it plays a Jupyter server, and how: see jupyter. "" is none.
	Jupyter string
	// Model says that it plays a model server, and how; nil is that it does not.
	Model *Model
}

// Step is one thing that a container prints: a line, or the answer of
// nvidia-smi to SMI.
type Step struct {
	After time.Duration // since the start of the container
	Text  string
	SMI   []string // arguments of nvidia-smi; nil is Text
	Date  bool     // the time, as the command date prints it
	Once  bool     // with Every, only the first time
	// Trains is a line with a step and its loss, those of the round of Every.
	Trains bool
}

// Pause is a time in which a program stood still.
type Pause struct {
	At  time.Duration // since the start of the container, with the pauses before
	For time.Duration
}

// since returns when after its start a run with pauses comes to what it would come to after a time without them.
func (p *Plan) since(after time.Duration) time.Duration {
	for _, pause := range p.Pauses {
		if after > pause.At {
			after += pause.For
		}
	}
	return after
}

// Behave decides how long container c of the pod runs, what it prints and how
// it loads its devices. In this order it follows the annotation
// berth.dev/simulate, a command that is plain (see command), and then what kind
// of pod it is.
//
// devices are those the container holds, with the memory that it may count on:
// for a time-slicing share its even part, though nothing fences it.
func Behave(pod *v1.Pod, c *v1.Container, devices []sharing.Device) Plan {
	plan, known := command(pod, c, devices)
	if !known {
		plan = unknownCommand(pod, c, devices)
	}
	note := pod.Annotations[api.AnnotationSimulate]
	if note == "" {
		return plan
	}
	s, err := parseSimulation(note, c.Name)
	if err != nil {
		return Plan{ExitCode: 1, Reason: invalidSimulation, Message: err.Error(), Steps: []Step{{Text: "berth: " + err.Error()}}}
	}
	return s.apply(plan, devices)
}

// unknownCommand is the plan of a container of which only the kind of pod says
// something.
func unknownCommand(pod *v1.Pod, c *v1.Container, devices []sharing.Device) Plan {
	if shellExits(pod, c) {
		return Plan{Steps: []Step{{Text: "berth: this container is simulated; its image " + c.Image +
			" starts a shell, which exits at once because it has no input"}}, Idle: true}
	}
	plan := Plan{Forever: true}
	switch {
	case initContainer(pod, c.Name) && !restartsAlways(c):
		plan = Plan{Duration: initDuration}
	case sidecar(pod, c) || ephemeral(pod, c.Name) || hubServer(pod):
	case ownedByJob(pod) || pod.Spec.RestartPolicy == v1.RestartPolicyNever || pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure:
		plan = Plan{Duration: batchDuration}
	}
	ends := "it ends after " + plan.Duration.String() + " with exit code 0"
	if plan.Forever {
		ends = "it runs until it is deleted"
	}
	plan.Steps = []Step{{Text: "berth: this container is simulated: nothing of the image " + c.Image + " runs, and " + ends +
		"; the annotation " + api.AnnotationSimulate + " can change this"}}
	if trainingJob(pod) != "" {
		plan.Steps[0].Once, plan.Every = true, stepEvery
		plan.Steps = append(plan.Steps, Step{After: stepEvery, Trains: true})
	}
	load(&plan, c, devices)
	serves := jupyterImage(c.Image) || hubServer(pod) && c.Name == "notebook"
	if plan.Forever && serves && !initContainer(pod, c.Name) && !ephemeral(pod, c.Name) {
		playJupyter(&plan)
	}
	if plan.Forever && servesModel(pod, c) {
		playModel(&plan, pod, c)
	}
	return plan
}

// load fills in how a container that computes uses its devices: training and
// commands nearly all, servers less.
func load(plan *Plan, c *v1.Container, devices []sharing.Device) {
	if len(devices) == 0 {
		return
	}
	plan.UtilizationRatio, plan.MemoryBytes = 0.9, part(devices)*85/100
	if plan.Forever && len(c.Command) == 0 && len(c.Args) == 0 {
		plan.UtilizationRatio, plan.MemoryBytes = 0.3, part(devices)*40/100
	}
}

// part returns the memory of the smallest device, in bytes.
func part(devices []sharing.Device) int64 {
	least := devices[0].MemoryBytes
	for _, d := range devices[1:] {
		least = min(least, d.MemoryBytes)
	}
	return least
}

// shellExits reports whether c starts a shell that finds nothing to read: a
// pod of its own, no command, and an image whose default is a shell.
func shellExits(pod *v1.Pod, c *v1.Container) bool {
	return metav1.GetControllerOf(pod) == nil && len(c.Command) == 0 && len(c.Args) == 0 &&
		pod.Spec.RestartPolicy == v1.RestartPolicyAlways && !initContainer(pod, c.Name) && !ephemeral(pod, c.Name) && shellImage(c.Image)
}

// typedInto reports whether the process of c is a shell that waits for what is
// typed into it, as kubectl run -it and kubectl debug -it start one. It runs
// until exit is typed.
func typedInto(c *v1.Container) bool {
	words := slices.Concat(c.Command, c.Args)
	return c.Stdin && (len(words) == 0 && shellImage(c.Image) || shell.Interactive(words))
}

// shellImages are repositories whose images start a shell or an interpreter
// that reads standard input.
var shellImages = []string{
	"nvidia/cuda", "pytorch/pytorch", "tensorflow/tensorflow", "nvcr.io/nvidia/cuda", "nvcr.io/nvidia/pytorch",
	"nvcr.io/nvidia/tensorflow", "rayproject/ray", "rayproject/ray-ml", "continuumio/miniconda3", "continuumio/anaconda3",
	"ubuntu", "debian", "alpine", "busybox", "bash", "centos", "fedora", "rockylinux", "almalinux", "amazonlinux", "archlinux",
	"python", "node", "golang", "gcc", "ruby",
}

// shellImage reports whether an image's default command is a shell.
func shellImage(image string) bool {
	repository, tag := splitImage(image)
	return slices.Contains(shellImages, repository) && !strings.Contains(tag, "jupyter")
}

// splitImage cuts an image reference into its repository, without the prefixes
// of Docker Hub, and its tag.
func splitImage(image string) (repository, tag string) {
	repository, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository, tag = repository[:i], repository[i+1:]
	}
	repository = strings.TrimPrefix(repository, "docker.io/")
	return strings.TrimPrefix(repository, "library/"), tag
}

// hubServer reports whether a pod is the server of a JupyterHub's user, as KubeSpawner
// makes it: it serves, though it is restarted only on failure.
func hubServer(pod *v1.Pod) bool {
	return pod.Labels["component"] == "singleuser-server" && pod.Annotations[api.AnnotationHubUser] != ""
}

func ownedByJob(pod *v1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Job"
}

func initContainer(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == name })
}

func ephemeral(pod *v1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == name })
}

// sidecar reports whether c is an init container that keeps running.
func sidecar(pod *v1.Pod, c *v1.Container) bool {
	return initContainer(pod, c.Name) && restartsAlways(c)
}

func restartsAlways(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

package explain

import (
	"fmt"
	"strings"
)

// onNode says why a pod that has a node is not ready: volumes first, as nothing
// starts before them, then the containers in the order in which they start.
func (f *Facts) onNode() (Reason, string) {
	p := f.Pod
	if d := f.starting(); d.text != "" {
		return d.reason, d.text
	}
	for i := len(p.Troubles) - 1; i >= 0 && !p.begun(); i-- {
		if reason, message := f.mounting(&p.Troubles[i]); reason != "" {
			return reason, message
		}
	}
	for i := range p.Containers {
		if reason, message := f.container(&p.Containers[i]); reason != "" {
			return reason, message
		}
	}
	if len(p.Containers) == 0 {
		return Starting, "starts on node " + p.Node
	}
	return Starting, "runs on node " + p.Node + ", and does not answer as ready yet"
}

// mounting reads an event about a pod's volumes.
func (f *Facts) mounting(e *Refusal) (Reason, string) {
	text := e.Message
	switch {
	case e.Reason != "FailedAttachVolume" && e.Reason != "FailedMount":
		return "", ""
	case strings.Contains(text, "Multi-Attach error"), strings.Contains(text, "already exclusively attached"), strings.Contains(text, "already used by pod"):
		if f.InUse != "" {
			return VolumeInUse, f.InUse + ", and only one node may have it at a time (ReadWriteOnce); stop that pod, select its node, or use a claim with ReadWriteMany"
		}
		return VolumeInUse, fmt.Sprintf("its volume (%s) is attached to another node; stop what uses it there: %s", strings.Join(f.Claims, ", "), text)
	case strings.Contains(text, "not found"):
		return MissingVolume, "something that its volume needs does not exist; create it: " + text
	}
	return "", ""
}

// container says why one container keeps the pod from being ready, or "".
func (f *Facts) container(c *Container) (Reason, string) {
	node, who := f.Pod.Node, "container "+c.Name
	logs := fmt.Sprintf("kubectl logs -n %s %s -c %s --previous", f.Namespace, f.Pod.Name, c.Name)
	switch c.Waiting {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable":
		holds := ""
		if len(f.GPUs) > 0 {
			holds = "holds " + Amounts(f.GPUs) + " and cannot run: "
		}
		cause := orDash(c.Message)
		if remark := TagRemark(c.Image); remark != "" {
			cause += "; " + remark
		}
		return ImageTrouble, fmt.Sprintf("%simage %s cannot be pulled on node %s: %s; correct its name, or see that the registry lets this cluster in", holds, c.Image, node, cause)
	case "InvalidImageName":
		return ImageTrouble, "invalid image name " + c.Image + "; correct it"
	case "CrashLoopBackOff":
		return Crashing, fmt.Sprintf("%s has ended %s%s, and is started again after a pause; see %s", who, times(c.Restarts), exit(c), logs)
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "PostStartHookError":
		if why := f.config(c.Message); why != "" {
			return MissingConfig, why
		}
		return Crashing, fmt.Sprintf("%s cannot be made on node %s: %s", who, node, orDash(c.Message))
	case "ContainerCreating":
		if made := f.Pod.condition(ConditionReadyToStart); made != nil && made.Status == True {
			return Pulling, fmt.Sprintf("image %s is being pulled on node %s", c.Image, node)
		}
		return Starting, "node " + node + " prepares its volumes and network"
	case "PodInitializing":
		if f.Pod.initialized() {
			return Pulling, fmt.Sprintf("image %s is being pulled on node %s", c.Image, node)
		}
		return Starting, "its init containers run on node " + node
	case "":
	default:
		return Starting, fmt.Sprintf("%s waits on node %s: %s %s", who, node, c.Waiting, c.Message)
	}
	switch {
	case c.Init && c.Running:
		return Starting, "init container " + c.Name + " runs on node " + node
	case c.Init:
		return "", ""
	case c.Ended:
		return Crashing, fmt.Sprintf("%s has ended%s, and is started again; see %s", who, exit(c), strings.TrimSuffix(logs, " --previous"))
	case c.Restarts > 0 && !c.Running:
		return Crashing, fmt.Sprintf("%s has ended %s%s; see %s", who, times(c.Restarts), exit(c), logs)
	}
	return "", ""
}

// initialized says whether all init containers have ended well.
func (p *Pod) initialized() bool {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Init && !(c.Ended && c.ExitCode == 0) {
			return false
		}
	}
	return true
}

func exit(c *Container) string {
	if c.OutOfMemory {
		return " for lack of memory (raise its memory limit)"
	}
	return fmt.Sprintf(" with exit code %d", c.ExitCode)
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

package explain

import (
	"fmt"
	"strings"
)

// starting is what keeps a pod that has a node from running, where events and messages of
// its containers say more than their state.
func (f *Facts) starting() diagnosis {
	p := f.Pod
	if !p.begun() {
		if d := f.preparing(); d.code != "" {
			return d
		}
	}
	for i := range p.Containers {
		if d := f.containing(&p.Containers[i]); d.code != "" {
			return d
		}
	}
	if p.LostNode {
		return diagnosis{CodeNodeLost, Starting, fmt.Sprintf("node %s does not report, so the state of the pod is unknown; kubectl describe node %s", p.Node, p.Node)}
	}
	return f.unready()
}

// begun reports whether a container of the pod has run.
func (p *Pod) begun() bool {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Running || c.Ended || c.Restarts > 0 {
			return true
		}
	}
	return false
}

// preparing reads what the kubelet says before the first container starts: volumes, then
// the pod's sandbox.
//
// Source: events of the kubelet and of the attach/detach controller; containerd's errors.
func (f *Facts) preparing() diagnosis {
	p := f.Pod
	if e := p.said("FailedAttachVolume", "FailedMount", "FailedMapVolume"); e != nil {
		for kind, is := range map[string]string{"secret": "Secret", "configmap": "ConfigMap"} {
			if name := quoted(e.Message, kind+` "`); name != "" && strings.Contains(e.Message, "not found") {
				return diagnosis{CodeVolumeConfig, MissingConfig, fmt.Sprintf("%s %s, which one of its volumes uses, does not exist in namespace %s; create it", is, name, f.Namespace)}
			}
		}
		if reason, _ := f.mounting(e); reason != "" {
			return diagnosis{code: CodeMount}
		}
		return diagnosis{CodeMount, Starting, "node " + p.Node + " cannot mount one of its volumes: " + e.Message}
	}
	ready := p.condition(ConditionReadyToStart)
	e := p.said("FailedCreatePodSandBox", "FailedCreatePodContainer")
	if e == nil || ready != nil && ready.Status == True {
		return diagnosis{}
	}
	if strings.Contains(e.Message, "no runtime for") || strings.Contains(e.Message, "RuntimeHandler") && strings.Contains(e.Message, "not supported") {
		return diagnosis{CodeRuntime, Crashing, fmt.Sprintf("node %s has no runtime of the name that its runtime class wants: %s; configure the NVIDIA container toolkit there, or remove runtimeClassName", p.Node, lastPart(e.Message))}
	}
	return diagnosis{CodeSandbox, Crashing, "node " + p.Node + " cannot set up the pod's network or sandbox: " + lastPart(e.Message) + "; see the network plugin's pod on that node"}
}

// containing is what one container's messages say.
func (f *Facts) containing(c *Container) diagnosis {
	switch c.Waiting {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable", "InvalidImageName":
		return diagnosis{code: imageCode(c)}
	case "ContainerCreating", "PodInitializing":
		return diagnosis{}
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "PostStartHookError":
		return f.unmade(c)
	}
	if c.Init {
		if c.Waiting == "CrashLoopBackOff" || c.Ended && c.ExitCode != 0 || c.Running {
			return diagnosis{code: CodeInitBlocks}
		}
		return diagnosis{}
	}
	if c.Waiting != "CrashLoopBackOff" && !c.Ended && !(c.Restarts > 0 && !c.Running) {
		return diagnosis{}
	}
	return f.crashed(c)
}

// imageCode tells apart why an image cannot be pulled.
//
// Source: errors of containerd's resolver and of the distribution API.
func imageCode(c *Container) Code {
	text := strings.ToLower(c.Message)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case c.Waiting == "InvalidImageName":
		return CodeImageName
	case c.Waiting == "ErrImageNeverPull":
		return CodeNeverPull
	case has("toomanyrequests", "rate limit", "429 too many"):
		return CodeRateLimit
	case has("no match for platform"):
		return CodePlatform
	case has("unauthorized", "authentication required", "authorization failed", "denied", "403 forbidden", "401 ", "no basic auth"):
		return CodeRegistry
	case has("cannot be reached", "dial tcp", "i/o timeout", "no such host", "connection refused", "x509", "context deadline exceeded"):
		return CodeUnreachable
	}
	return CodeImage
}

// unmade is why a container cannot be made.
//
// Source: errors of the kubelet, runc, and NVIDIA's container toolkit.
func (f *Facts) unmade(c *Container) diagnosis {
	who := "container " + c.Name
	switch text := c.Message; {
	case f.config(text) != "":
		return diagnosis{}
	case strings.Contains(text, "unsatisfied condition: cuda"):
		return diagnosis{CodeCUDA, Crashing, fmt.Sprintf("image %s needs a newer CUDA than the driver of node %s gives (%s); use an image for an older CUDA, or update the driver there", c.Image, f.Pod.Node, lastPart(text))}
	case strings.Contains(text, "CDI device"):
		return diagnosis{CodeCDI, Crashing, fmt.Sprintf("%s cannot be created on node %s: its CDI device is not known there (%s); see the device plugin and the CDI specifications of that node", who, f.Pod.Node, lastPart(text))}
	case strings.Contains(text, "runAsNonRoot"), strings.Contains(text, "run as root"):
		return diagnosis{CodeNonRoot, Crashing, fmt.Sprintf("%s may not run as root, and image %s does; set runAsUser, or use another image", who, c.Image)}
	case strings.Contains(text, "executable file not found"), strings.Contains(text, "no such file or directory") && strings.Contains(text, "exec"):
		return diagnosis{CodeCommand, Crashing, fmt.Sprintf("%s cannot start: its command is not in image %s (%s); correct command, or use another image", who, c.Image, lastPart(text))}
	case strings.Contains(text, "exec format error"):
		return diagnosis{CodePlatform, Crashing, fmt.Sprintf("%s cannot start: image %s is for another processor than node %s has", who, c.Image, f.Pod.Node)}
	}
	return diagnosis{}
}

// crashed is why a container has ended, by what it left as its last words.
//
// Source: messages of PyTorch, the CUDA runtime, and NVML.
func (f *Facts) crashed(c *Container) diagnosis {
	who := fmt.Sprintf("container %s has ended%s", c.Name, exit(c))
	switch text := c.Said; {
	case c.OutOfMemory:
		return diagnosis{code: CodeOutOfMemory}
	case strings.Contains(text, "CUDA out of memory"), strings.Contains(text, "CUDA_ERROR_OUT_OF_MEMORY"):
		return diagnosis{CodeGPUOutOfMem, Crashing, who + ": the GPU has too little memory free for it; use a smaller batch, a GPU with more memory, or one that it does not share"}
	case strings.Contains(text, "Failed to initialize NVML: Unknown Error"):
		return diagnosis{CodeNVMLLost, Crashing, who + ": it has lost its GPUs while it ran, as after systemctl daemon-reload; start it again, and update the container toolkit"}
	case strings.Contains(text, "not compiled with CUDA"), strings.Contains(text, "driver version is insufficient"), strings.Contains(text, "no CUDA-capable device"), strings.Contains(text, "no kernel image is available"):
		return diagnosis{CodeFramework, Crashing, who + ": its framework cannot use the GPU (" + text + "); install a build for CUDA that the driver supports"}
	case strings.Contains(text, "fallen off the bus"), strings.Contains(text, "uncorrectable ECC"), strings.Contains(text, "Xid"):
		return diagnosis{CodeDeviceLost, Crashing, who + ": its GPU failed (" + text + "); drain the node, and reset or replace the GPU"}
	case strings.Contains(text, "exec format error"):
		return diagnosis{CodePlatform, Crashing, fmt.Sprintf("%s: image %s is for another processor than node %s has", who, c.Image, f.Pod.Node)}
	case c.ExitCode == 127 || c.ExitCode == 126 || strings.Contains(text, "executable file not found"):
		return diagnosis{CodeCommand, Crashing, who + ": its command is not in image " + c.Image + ", or cannot be executed; correct command, or use another image"}
	case f.Pod.unhealthy("Liveness") != "" && (c.ExitCode == 137 || c.ExitCode == 143):
		return diagnosis{CodeLiveness, Crashing, who + ", because its liveness probe failed: " + f.Pod.unhealthy("Liveness") + "; correct the probe, or give it more time"}
	}
	return diagnosis{}
}

// unhealthy is what the newest event about a failed probe says, "" if there is none.
func (p *Pod) unhealthy(probe string) string {
	for i := len(p.Troubles) - 1; i >= 0; i-- {
		if e := &p.Troubles[i]; e.Reason == "Unhealthy" && strings.HasPrefix(e.Message, probe) {
			return e.Message
		}
	}
	return ""
}

// unready is why a pod whose containers run is not ready.
func (f *Facts) unready() diagnosis {
	p := f.Pod
	if len(p.Containers) == 0 {
		return diagnosis{}
	}
	for i := range p.Containers {
		if c := &p.Containers[i]; !c.Running && !c.Init {
			return diagnosis{}
		}
	}
	if c := p.condition("ContainersReady"); c != nil && c.Status == True {
		for _, gate := range p.ReadyGates {
			if is := p.condition(gate); is == nil || is.Status != True {
				return diagnosis{CodeReadyGate, Starting, fmt.Sprintf("its containers are ready on node %s, and its readiness gate %s is not; the controller of that condition sets it", p.Node, gate)}
			}
		}
	}
	for _, probe := range []string{"Startup", "Readiness"} {
		if said := p.unhealthy(probe); said != "" {
			return diagnosis{CodeNotReadyYet, Starting, fmt.Sprintf("runs on node %s, and does not answer as ready: %s", p.Node, said)}
		}
	}
	return diagnosis{CodeNotReadyYet, "", ""}
}

// deleting is why a pod that is being deleted is still there, where that is known.
func (f *Facts) deleting() diagnosis {
	p := f.Pod
	switch {
	case len(p.Finalizers) > 0 && !p.running():
		return diagnosis{CodeDeleting, Terminating, fmt.Sprintf("its containers have ended, and it is being deleted; the finalizer %s keeps it until its controller removes that: kubectl edit pod -n %s %s removes it by hand", strings.Join(p.Finalizers, ", "), f.Namespace, p.Name)}
	case p.LostNode:
		return diagnosis{CodeNodeLost, Terminating, fmt.Sprintf("its pod is being deleted, and node %s does not report that it has ended; repair the node, or, if it is gone for good, kubectl delete pod -n %s %s --force", p.Node, f.Namespace, p.Name)}
	}
	return diagnosis{}
}

func (p *Pod) running() bool {
	for i := range p.Containers {
		if p.Containers[i].Running {
			return true
		}
	}
	return false
}

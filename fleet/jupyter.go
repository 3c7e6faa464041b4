package fleet

import (
	"fmt"
	"strings"
	"time"

	"berth.dev/berth/fleet/kubelet"
)

// What a Jupyter server in a simulated container reports about its kernel.
const (
	jupyterOff  = ""     // nothing: there is none
	jupyterAuto = "auto" // busy while its GPUs are in use
	jupyterIdle = "idle"
	jupyterBusy = "busy"
	// jupyterTerminal is an idle kernel, and a program in a terminal whose page is closed.
	jupyterTerminal = "terminal"
)

// programMilli is the CPU that the program in a terminal uses, in thousandths of a core.
const programMilli = 900

// jupyterRatio is the utilization above which a kernel is taken to be busy.
const jupyterRatio = 0.05

// jupyterImage tells an image of a Jupyter server by its name, as those of
// jupyter/docker-stacks and of Kubeflow are called.
func jupyterImage(image string) bool {
	repository, tag := splitImage(image)
	if _, name, ok := strings.Cut(repository, "jupyterhub/"); ok && !strings.Contains(name, "singleuser") {
		return false // a part of a hub
	}
	return strings.Contains(repository, "jupyter") || strings.Contains(tag, "jupyter") || strings.HasSuffix(repository, "-notebook")
}

// playJupyter makes a plan that of a Jupyter server in which no user has run
// anything: it holds its GPUs and does not use them.
func playJupyter(plan *Plan) {
	plan.Jupyter, plan.UtilizationRatio, plan.MemoryBytes = jupyterAuto, 0, 0
}

// jupyterField reads the field of that name of berth.dev/simulate.
func jupyterField(value string) (string, error) {
	switch value {
	case "off", "false":
		return jupyterOff, nil
	case jupyterAuto, jupyterIdle, jupyterBusy, jupyterTerminal:
		return value, nil
	}
	return "", fmt.Errorf("%q is not a state of a Jupyter server; write %s", value,
		strings.Join([]string{jupyterAuto, jupyterIdle, jupyterBusy, jupyterTerminal, "off"}, ", "))
}

// jupyter is what the Jupyter server in a container tells at a moment, or nil.
func jupyter(plan Plan, begun, now time.Time) *kubelet.Jupyter {
	switch plan.Jupyter {
	case jupyterIdle:
		return &kubelet.Jupyter{Activity: begun}
	case jupyterTerminal:
		return &kubelet.Jupyter{Activity: begun, Terminal: true}
	case jupyterBusy:
		return &kubelet.Jupyter{Busy: true, Activity: begun}
	case jupyterAuto:
		return worked(plan, begun, now)
	}
	return nil
}

// worked follows the use of GPUs up to now: whether there is some, and when it last
// began or ended.
func worked(plan Plan, begun, now time.Time) *kubelet.Jupyter {
	j := &kubelet.Jupyter{Busy: plan.UtilizationRatio > jupyterRatio, Activity: begun}
	for _, p := range plan.Curve {
		at := begun.Add(p.After)
		if busy := p.UtilizationRatio > jupyterRatio; !at.After(now) && busy != j.Busy {
			j.Busy, j.Activity = busy, at
		}
	}
	return j
}

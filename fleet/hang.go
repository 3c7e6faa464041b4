package fleet

import (
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/core/training"
)

const (
	oomAfter    = 2 * time.Second // how long a program that starts under the fault oom runs
	waitingLook = time.Second     // how often one that waits for another rank looks whether that goes on
)

// hang is a run that stands still.
type hang struct {
	from time.Time
	idle bool // its program hangs; false is that it waits for that of another rank, and is busy with it
	was  Plan // by which it goes on
}

// hungJobs are the pods that the fault rank-hang keeps, by the training job that controls them: the other ranks wait for them. It is safe
// for concurrent use.
type hungJobs struct {
	mu   sync.Mutex
	jobs map[types.UID]map[types.UID]bool
}

// set notes whether a pod of a job hangs, and reports whether that is new.
func (h *hungJobs) set(job, pod types.UID, hangs bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if job == "" || h.jobs[job][pod] == hangs {
		return false
	}
	if !hangs {
		if delete(h.jobs[job], pod); len(h.jobs[job]) == 0 {
			delete(h.jobs, job)
		}
		return true
	}
	if h.jobs == nil {
		h.jobs = map[types.UID]map[types.UID]bool{}
	}
	if h.jobs[job] == nil {
		h.jobs[job] = map[types.UID]bool{}
	}
	h.jobs[job][pod] = true
	return true
}

// any reports whether a pod of the job hangs.
func (h *hungJobs) any(job types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.jobs[job]) > 0
}

// trainingJob returns the UID of the training job that controls a pod, "" if none does.
func trainingJob(pod *v1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		switch training.Kind(ref.Kind) {
		case training.TFJob, training.PyTorchJob, training.TrainJob:
			return ref.UID
		}
	}
	return ""
}

// wakeJob lets the pods of a job see what has become of one of them.
func (f *Fleet) wakeJob(job types.UID) {
	for _, n := range f.sorted() {
		n.mu.Lock()
		for _, p := range n.pods {
			if trainingJob(p.api) == job {
				f.queue.Add(p)
			}
		}
		n.mu.Unlock()
	}
}

// holds reports whether a container has a device of one of the GPUs, by index.
func (c *container) holds(gpus map[int]bool) bool {
	return slices.ContainsFunc(c.devices, func(d sharing.Device) bool { return gpus[d.GPU] })
}

// outOfMemory is a plan that ends, after a time since its start, as that of a program which uses more memory than its limit.
func outOfMemory(plan Plan, after time.Duration) Plan {
	if plan.Forever || plan.Duration > after {
		plan.Forever, plan.Duration = false, after
		plan.ExitCode, plan.Reason, plan.Message = 137, "OOMKilled", ""
	}
	return plan
}

// starve ends a run when the fault oom comes to its GPUs.
func (c *container) starve(before, after faults, now time.Time) {
	if c.running() && !c.hosted && c.holds(after.oom) && !c.holds(before.oom) {
		c.plan, c.hung = outOfMemory(c.plan, now.Sub(c.begun)), nil
	}
}

// standStill lets the programs of a pod stand still while the fault rank-hang of their GPUs, or of those of another rank of their job, says
// so. It reports whether the other ranks have to learn of a change.
func (p *pod) standStill(now time.Time) (changed bool) {
	f, job := p.node.fleet, trainingJob(p.api)
	hangs := func(c *container) bool {
		return c.running() && !c.hosted && !p.finished && c.holds(p.node.faults.hang)
	}
	changed = f.hung.set(job, p.api.UID, slices.ContainsFunc(p.containers, hangs))
	waits := job != "" && f.hung.any(job)
	for _, c := range p.containers {
		if !c.running() || c.hosted || c.role != roleApp || c.holds(p.node.faults.oom) {
			continue
		}
		idle := hangs(c)
		if c.hung != nil && (c.hung.idle != idle || !idle && !waits) {
			c.goOn(now)
			if !c.plan.Forever {
				p.wake(c.begun.Add(c.plan.Duration))
			}
		}
		if c.hung == nil && (idle || waits) {
			c.stand(now, idle)
		}
		if c.hung != nil && !idle {
			p.wake(now.Add(waitingLook))
		}
	}
	return changed
}

// stand stops a run at a time. One that hangs leaves its GPUs idle and does not end when it is asked to.
func (c *container) stand(now time.Time, idle bool) {
	c.hung = &hang{from: now, idle: idle, was: c.plan}
	c.plan.Forever = true
	if idle {
		at, l := now.Sub(c.begun), c.loadNow()
		c.plan.Stop, c.plan.CPUMilli = math.MaxInt64, 1
		c.plan.Curve = append(before(c.plan.Curve, at), fakegpu.Point{After: at, MemoryBytes: memoryOf(l, now)})
	}
}

// goOn lets a run go on where it stood still, so its lines and its end come later.
func (c *container) goOn(now time.Time) {
	h, stood := c.hung, now.Sub(c.hung.from)
	at := h.from.Sub(c.begun)
	c.hung, c.plan = nil, h.was
	c.plan.Duration += stood
	c.plan.Pauses = append(slices.Clone(h.was.Pauses), Pause{At: at, For: stood})
	l := c.loadNow()
	curve := before(h.was.Curve, at)
	if h.idle {
		memory := memoryOf(l, h.from)
		curve = append(curve, fakegpu.Point{After: at, MemoryBytes: memory},
			fakegpu.Point{After: at + stood, MemoryBytes: memory, UtilizationRatio: ratioOf(l, h.from)})
	}
	for _, point := range h.was.Curve[len(before(h.was.Curve, at)):] {
		point.After += stood
		curve = append(curve, point)
	}
	c.plan.Curve = curve
}

// loadNow is what the plan of a run puts on a device.
func (c *container) loadNow() fakegpu.Load {
	return fakegpu.Load{UtilizationRatio: c.plan.UtilizationRatio, MemoryBytes: c.plan.MemoryBytes, Start: c.begun, Curve: c.plan.Curve}
}

// before returns a copy of the points of a curve up to a time.
func before(curve []fakegpu.Point, at time.Duration) (out []fakegpu.Point) {
	for _, p := range curve {
		if p.After <= at {
			out = append(out, p)
		}
	}
	return out
}

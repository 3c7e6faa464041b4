package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	pullTime  = 400 * time.Millisecond // of an image new to the node, in small fleets
	pullFleet = 100                    // nodes from which on pulls take no time
	pullShown = 2 * time.Second        // ErrImagePull turns into ImagePullBackOff
	lookAgain = 10 * time.Second       // for an image that must not be pulled
)

// try starts a container if nothing stands in the way, and says in its state
// what does. A run without a duration ends at once and may be tried again.
func (p *pod) try(c *container, now time.Time) {
	for p.mayStart(c, now) && p.haveImage(c, now) && p.configured(c) {
		p.begin(c, now)
		if c.plan.Forever || c.plan.Duration > 0 {
			return
		}
		p.end(c, now, c.plan.ExitCode, c.plan.Reason, c.plan.Message)
		if !c.restarting(p.api) {
			return
		}
	}
}

// mayStart reports whether the back-off after crashes is over.
func (p *pod) mayStart(c *container, now time.Time) bool {
	again := c.state.Terminated != nil || c.last.Terminated != nil && c.state.Waiting != nil && c.state.Waiting.Reason == crashLoop
	if !again || !now.Before(c.retry) {
		return true
	}
	p.wake(c.retry)
	if c.state.Terminated != nil {
		p.wait(c, crashLoop, fmt.Sprintf("back-off %s restarting failed container=%s", short(delay(c.crashes)), p.where(c)))
		p.event(v1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)",
			c.spec.Name, p.api.Name, p.api.Namespace, p.api.UID), c)
	}
	return false
}

const crashLoop = "CrashLoopBackOff"

// short writes a back-off as kubelets do: 10s, 1m20s, 5m0s.
func short(d time.Duration) string { return d.String() }

// wait makes a container wait for a reason.
func (p *pod) wait(c *container, reason, message string) {
	if c.state.Terminated != nil {
		c.last = c.state
	}
	c.state = waiting(reason, message)
}

// haveImage reports whether the container's image is on the node, and pulls it.
func (p *pod) haveImage(c *container, now time.Time) bool {
	n, image := p.node, c.spec.Image
	have := n.images[image]
	if why := invalidImage(image); !have && why != "" {
		if c.state.Waiting == nil || c.state.Waiting.Reason != "InvalidImageName" {
			message := fmt.Sprintf("Failed to apply default image tag %q: %s", image, why)
			p.wait(c, "InvalidImageName", message)
			p.event(v1.EventTypeWarning, "InspectFailed", message, c)
			p.event(v1.EventTypeWarning, "Failed", "Error: InvalidImageName", c)
		}
		return false
	}
	switch {
	case c.spec.ImagePullPolicy == v1.PullNever && !have:
		if c.state.Waiting == nil || c.state.Waiting.Reason != "ErrImageNeverPull" {
			message := fmt.Sprintf("Container image %q is not present with pull policy of Never", image)
			p.wait(c, "ErrImageNeverPull", message)
			p.event(v1.EventTypeWarning, "ErrImageNeverPull", message, c)
			p.event(v1.EventTypeWarning, "Failed", "Error: ErrImageNeverPull", c)
		}
		p.wake(now.Add(lookAgain))
		return false
	case have && c.spec.ImagePullPolicy != v1.PullAlways:
		p.event(v1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine", image), c)
		return true
	case n.faults.image:
		return p.failPull(c, now)
	case !have && !p.pull(c, now):
		return false
	}
	c.pulls, c.pulled = 0, time.Time{}
	n.images[image] = true
	p.event(v1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q (simulated: nothing was fetched)", image), c)
	return true
}

// pull reports whether the time that a pull takes has passed.
func (p *pod) pull(c *container, now time.Time) bool {
	took := p.node.fleet.pullTime
	if took == 0 {
		return true
	}
	if c.pulled.IsZero() {
		c.pulled = now.Add(took)
		p.event(v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.spec.Image), c)
	}
	if now.Before(c.pulled) {
		p.wake(c.pulled)
		return false
	}
	return true
}

// failPull goes through ErrImagePull and ImagePullBackOff while the node cannot
// reach its registry. It always reports false.
func (p *pod) failPull(c *container, now time.Time) bool {
	image := c.spec.Image
	shown := c.retry.Add(-delay(c.pulls)).Add(pullShown)
	switch {
	case c.pulls == 0 || !now.Before(c.retry):
		c.pulls++
		c.retry, shown = now.Add(delay(c.pulls)), now.Add(pullShown)
		c.failure = fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: the registry cannot be reached (simulated fault on node %s)",
			image, image, p.node.name)
		p.wait(c, "ErrImagePull", c.failure)
		p.event(v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", image), c)
		p.event(v1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", image, c.failure), c)
		p.event(v1.EventTypeWarning, "Failed", "Error: ErrImagePull", c)
	case !now.Before(shown) && c.state.Waiting != nil && c.state.Waiting.Reason == "ErrImagePull":
		p.wait(c, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", image, c.failure))
		p.event(v1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", image), c)
		p.event(v1.EventTypeWarning, "Failed", "Error: ImagePullBackOff", c)
	}
	if now.Before(shown) {
		p.wake(shown)
	}
	p.wake(c.retry)
	return false
}

// configured reports whether the ConfigMaps and Secrets of the container's
// environment are there.
func (p *pod) configured(c *container) bool {
	for _, m := range p.missing {
		if m.container != c.spec.Name {
			continue
		}
		if c.state.Waiting == nil || c.state.Waiting.Message != m.message {
			p.wait(c, "CreateContainerConfigError", m.message)
			p.event(v1.EventTypeWarning, "Failed", "Error: "+m.message, c)
		}
		p.wake(p.lookAt)
		return false
	}
	return true
}

// begin starts a run.
func (p *pod) begin(c *container, now time.Time) {
	if c.state.Terminated != nil {
		c.last = c.state
	}
	if c.last.Terminated != nil {
		c.restarts++
		c.crashes++
	}
	c.begun, c.image, c.hung = now, c.spec.Image, nil
	c.plan = p.node.plan(p, c)
	p.download(c)
	p.back(c)
	c.state = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: seconds(now)}}
	p.configure = p.configure || p.plugin && !p.node.faults.plugin
	p.event(v1.EventTypeNormal, "Created", "Container created", c)
	p.event(v1.EventTypeNormal, "Started", "Container started", c)
	if c.plan.Reason == invalidSimulation {
		p.event(v1.EventTypeWarning, invalidSimulation, c.plan.Message, c)
	}
}

// containerID names the current run of a container, the same after a restart of
// the fleet.
func (p *pod) containerID(c *container) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", p.api.UID, c.spec.Name, c.restarts))
	scheme := simScheme
	if c.hosted {
		scheme = hostScheme
	}
	return scheme + hex.EncodeToString(sum[:])
}

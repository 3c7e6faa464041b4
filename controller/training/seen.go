package training

import rules "berth.dev/berth/core/training"

// seenPods are the pods with a node that a pass has seen and left there, by UID. If one is gone at the next pass, it was
// deleted with no time between, as pods are whose node is gone.
type seenPods map[string]rules.Pod

// seenOf returns the pods that stay when a plan has been carried out.
func seenOf(pods []rules.Pod, plan *rules.Plan) seenPods {
	out := seenPods{}
	for i := range pods {
		if p := &pods[i]; p.Node != "" && (p.Phase == rules.Pending || p.Phase == rules.Running) {
			out[p.UID] = *p
		}
	}
	for _, list := range [][]rules.Pod{plan.DeletePods, plan.ForgetPods} {
		for i := range list {
			delete(out, list[i].UID)
		}
	}
	return out
}

// gone returns those that are not among pods.
func (s seenPods) gone(pods []rules.Pod) (out []rules.Pod) {
	there := make(map[string]bool, len(pods))
	for i := range pods {
		there[pods[i].UID] = true
	}
	for uid, p := range s {
		if !there[uid] {
			out = append(out, p)
		}
	}
	return out
}

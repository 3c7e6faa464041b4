package training

import "fmt"

// stopped adds events about pods that have ended after they were asked to stop: whether they have saved their work.
func (p *pass) stopped() {
	for i := range p.Stopped {
		pod := &p.Stopped[i]
		if !pod.Interrupted || pod.Exit == nil {
			continue
		}
		switch proof, missed := pod.Saves.Stopped(pod.Asked, *pod.Exit); {
		case proof != "":
			p.Events = append(p.Events, Event{Reason: "CheckpointSaved", Message: fmt.Sprintf("pod %s has saved its work after it was asked to stop: %s proves it", pod.Name, proof)})
		case missed != "":
			p.Events = append(p.Events, Event{Warning: true, Reason: "CheckpointMissed", Message: fmt.Sprintf("pod %s saves its work when it is asked to stop, as it says, but %s", pod.Name, missed)})
		}
	}
}

package explain

// NoWaitHelps reports whether the workload starts only after someone has changed something, however long it waits. r is
// what Judge has said of the same facts.
func (f *Facts) NoWaitHelps(r *Result) bool {
	switch f.Code(r) { //nolint:exhaustive // the reason decides about the rest
	case CodeQueueMissing, CodeQueueNever, CodeQueueSharing, CodeScheduler:
		return true
	}
	switch r.Reason {
	case NoSuchGPU, NoSuchNode, MissingVolume, MissingServiceAccount, MissingPriorityClass, MissingConfig, Invalid, Refused:
		return true
	case Queued:
		return f.Group != nil && f.Group.Needed > f.Group.Total && f.Group.text() != ""
	case Quota, Ready, Starting, Pulling, ImageTrouble, VolumeInUse, Crashing, Restarting, Stopped, Terminating:
	}
	return false
}

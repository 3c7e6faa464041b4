package training

// Adopts reports whether the job takes control of an object of this name that no controller has, and whose labels say that it
// is this member. The pods of a job that was deleted without them go on with the job that is created under its name, as under
// upstream's operator. A TrainJob adopts none, as JobSet does not.
func (j *Job) Adopts(m Member, name string) bool {
	return j.Ours() && j.Kind != TrainJob && !j.Status.Ended() && j.has(m) && name == m.Name(j.Name)
}

// AdoptsPod reports the same of a pod. One that has ended is left alone, where upstream takes it: a new job would have ended with it
// before it began.
func (j *Job) AdoptsPod(p *Pod) bool {
	return (p.Phase == Pending || p.Phase == Running) && j.Adopts(p.Member, p.Name)
}

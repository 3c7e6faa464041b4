package training

import "fmt"

// Layout returns the replicas of a job of n pods, for people that do not choose them: a Master or Chief,
// and workers. A TFJob of one pod has a Worker alone, as TensorFlow trains without TF_CONFIG
// then. n is at least 1.
func (k Kind) Layout(n int) []Replica {
	if k == TFJob && n == 1 {
		return []Replica{{Type: Worker, Count: 1}}
	}
	first := Chief
	if k == PyTorchJob {
		first = Master
	}
	out := []Replica{{Type: first, Count: 1}}
	if n > 1 {
		out = append(out, Replica{Type: Worker, Count: n - 1})
	}
	return out
}

// ByRank returns the replicas of the job in the order of their ranks: the Chief or Master, or the nodes, then the workers,
// and then the parameter servers and evaluators.
func (j *Job) ByRank() []Replica {
	var out []Replica
	for _, t := range []string{Chief, Master, Node, Worker, PS, Evaluator} {
		if r := j.Replica(t); r != nil {
			out = append(out, *r)
		}
	}
	return out
}

// Ranks returns all members of the job in the order of ByRank. If a PyTorchJob has a Master, these are the values
// of RANK, and of a TrainJob those of PET_NODE_RANK; other jobs have no such variable.
func (j *Job) Ranks() []Member {
	var out []Member
	for _, r := range j.ByRank() {
		for i := range r.Count {
			out = append(out, Member{r.Type, i})
		}
	}
	return out
}

// Rank returns the place of a member in Ranks, also of one beyond the count of its type.
func (j *Job) Rank(m Member) int {
	n := m.Index
	for _, r := range j.ByRank() {
		if r.Type == m.Type {
			break
		}
		n += r.Count
	}
	return n
}

// Scale returns how many workers the job has with a total of n pods, or why it cannot have that
// many, with what to do. Only workers can become more or fewer. The pods of a job that runs know how many they are,
// so only an elastic job, a TFJob with enableDynamicWorker, or a suspended job can change.
func (j *Job) Scale(n int) (workers int, refusal string) {
	w := j.Replica(Worker)
	if j.Kind == TrainJob {
		return 0, "spec.trainer.numNodes of a TrainJob cannot be changed; create it again with the number that you want"
	}
	if w == nil {
		return 0, fmt.Sprintf("the %s has no Worker replicas, and a job has one %s; create it again with the replicas that you want", j.Kind, j.Leader())
	}
	others := j.Total() - w.Count
	workers = n - others
	switch e := j.Elastic; {
	case workers < 1:
		return 0, fmt.Sprintf("the job has %d replicas beside its workers, and at least one Worker: use %d or more", others, others+1)
	case e != nil && (workers < e.Min || workers > e.Max):
		return 0, fmt.Sprintf("spec.elasticPolicy allows %d to %d workers, so %d to %d replicas", e.Min, e.Max, e.Min+others, e.Max+others)
	case j.Status.Ended():
		return 0, "the job has ended; create it again with the replicas that you want"
	case workers != w.Count && e == nil && !j.Dynamic && !j.Suspend:
		return 0, fmt.Sprintf("its pods were started as %d replicas, and others could not join them; stop the job, scale it, and resume it", j.Total())
	}
	return workers, ""
}

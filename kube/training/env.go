package training

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/core/training"
)

// Var is an environment variable.
type Var struct{ Name, Value string }

// Env returns the environment that a member's containers get, in order, after what their author
// wrote. Every reports whether all containers get it, or the one that trains alone.
// domain is the cluster's DNS domain for names in TF_CONFIG; "" leaves it out.
func Env(j *training.Job, m training.Member, domain string) (vars []Var, every bool) {
	if j.Kind == training.PyTorchJob {
		return torch(j, m), true
	}
	if j.Kind == training.TrainJob || j.Total() == 1 {
		return nil, false // has it in its template, or trains alone and needs to know of no other
	}
	return []Var{{"TF_CONFIG", tfConfig(j, m, domain)}}, false
}

// tfConfig returns TF_CONFIG: the addresses of all replicas by type, and which one the
// member is. With enableDynamicWorker a worker knows the parameter servers and itself.
func tfConfig(j *training.Job, m training.Member, domain string) string {
	address := func(of training.Member, port int) string {
		host := of.Name(j.Name) + "." + j.Namespace + ".svc"
		if domain != "" {
			host += "." + domain
		}
		return host + ":" + strconv.Itoa(port)
	}
	all := map[string][]string{}
	for _, r := range j.Replicas {
		list := make([]string, 0, r.Count)
		for i := range r.Count {
			list = append(list, address(training.Member{Type: r.Type, Index: i}, r.Port))
		}
		all[strings.ToLower(r.Type)] = list
	}
	own := strings.ToLower(m.Type)
	task := map[string]any{"type": own, "index": m.Index}
	config := map[string]any{"cluster": all, "task": task, "environment": "cloud"}
	if j.Dynamic {
		servers, workers := []string{}, map[string]string{}
		switch m.Type {
		case training.PS:
			servers = append(servers, all[own][m.Index])
		case training.Worker:
			if ps := all[strings.ToLower(training.PS)]; ps != nil {
				servers = ps
			}
			workers[strconv.Itoa(m.Index)] = all[own][m.Index]
		}
		config = map[string]any{"cluster": map[string]any{"worker": workers, "ps": servers}, "task": task}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return "" // strings and numbers can be written
	}
	return string(text)
}

// torch returns the environment of torch.distributed and torchrun.
func torch(j *training.Job, m training.Member) []Var {
	vars := []Var{{"PYTHONUNBUFFERED", "1"}}
	add := func(name, value string) { vars = append(vars, Var{name, value}) }
	if master := j.Replica(training.Master); master != nil {
		port, host := strconv.Itoa(master.Port), training.Member{Type: training.Master}.Name(j.Name)
		rank := j.Rank(m)
		add("MASTER_PORT", port)
		add("PET_MASTER_PORT", port)
		add("MASTER_ADDR", host)
		add("PET_MASTER_ADDR", host)
		add("WORLD_SIZE", strconv.Itoa(j.Total()*processes(j)))
		add("RANK", strconv.Itoa(rank))
		add("PET_NODE_RANK", strconv.Itoa(rank))
	}
	if j.Processes != "" {
		add("PET_NPROC_PER_NODE", j.Processes)
	}
	if j.Elastic == nil {
		add("PET_NNODES", strconv.Itoa(j.Total()))
		return vars
	}
	return append(vars, rendezvous(j)...)
}

// processes returns how many processes a pod starts, 1 where the program finds out.
func processes(j *training.Job) int {
	if n, err := strconv.Atoi(j.Processes); err == nil {
		return n
	}
	return 1
}

// rendezvous returns what an elastic job adds.
func rendezvous(j *training.Job) []Var {
	e := j.Elastic
	host, port, backend := e.Host, e.Port, e.Backend
	if host == "" {
		host = training.Member{Type: training.Worker}.Name(j.Name)
	}
	if w := j.Replica(training.Worker); port == 0 && w != nil {
		port = w.Port
	}
	if backend == "" {
		backend = "c10d"
	}
	vars := []Var{
		{"PET_RDZV_ENDPOINT", host + ":" + strconv.Itoa(port)},
		{"PET_RDZV_BACKEND", backend},
		{"PET_NNODES", fmt.Sprintf("%d:%d", e.Min, e.Max)},
	}
	add := func(name string, value *int) {
		if value != nil {
			vars = append(vars, Var{name, strconv.Itoa(*value)})
		}
	}
	add("PET_MAX_RESTARTS", e.MaxRestarts)
	add("PET_NPROC_PER_NODE", e.Processes)
	if e.ID != "" {
		vars = append(vars, Var{"PET_RDZV_ID", e.ID})
	}
	if e.Conf != "" {
		vars = append(vars, Var{"PET_RDZV_CONF", e.Conf})
	}
	if e.Standalone {
		vars = append(vars, Var{"PET_STANDALONE", ""})
	}
	return vars
}

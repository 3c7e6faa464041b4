package training_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	core "berth.dev/berth/core/training"
	"berth.dev/berth/kube/training"
)

// tfJob returns a TFJob with a Chief and three workers.
func tfJob(change ...func(*core.Job)) core.Job {
	j := core.Job{Kind: core.TFJob, Namespace: "ml", Name: "mnist", Replicas: []core.Replica{{Type: core.Chief, Count: 1, Port: 2222}, {Type: core.Worker, Count: 3, Port: 2222}}}
	for _, c := range change {
		c(&j)
	}
	return j
}

// torchJob returns a PyTorchJob with a Master and two workers.
func torchJob(change ...func(*core.Job)) core.Job {
	j := core.Job{
		Kind: core.PyTorchJob, Namespace: "ml", Name: "bert", Processes: "auto",
		Replicas: []core.Replica{{Type: core.Master, Count: 1, Port: 23456}, {Type: core.Worker, Count: 2, Port: 23456}},
	}
	for _, c := range change {
		c(&j)
	}
	return j
}

// workersOnly leaves the workers alone.
func workersOnly(j *core.Job) {
	j.Replicas = slices.DeleteFunc(j.Replicas, func(r core.Replica) bool { return r.Type != core.Worker })
}

func elastic(least, most int) func(*core.Job) {
	return func(j *core.Job) { j.Elastic = &core.Elastic{Min: least, Max: most} }
}

// TestEnv has the cases of training-operator's own tables (tensorflow/pod_test.go, pytorch/pytorchjob_controller_test.go and
// elastic_test.go), by their facts.
func TestEnv(t *testing.T) {
	port := func(n int) func(*core.Job) {
		return func(j *core.Job) {
			for i := range j.Replicas {
				j.Replicas[i].Port = n
			}
		}
	}
	three, five := 3, 5
	for _, tt := range []struct {
		name   string
		job    core.Job
		member core.Member
		domain string
		want   string
		every  bool
	}{
		{
			name: "TF_CONFIG of a worker", job: tfJob(), member: core.Member{Type: core.Worker, Index: 1},
			want: `TF_CONFIG={"cluster":{"chief":["mnist-chief-0.ml.svc:2222"],"worker":["mnist-worker-0.ml.svc:2222","mnist-worker-1.ml.svc:2222","mnist-worker-2.ml.svc:2222"]},` +
				`"environment":"cloud","task":{"index":1,"type":"worker"}}`,
		},
		{
			name: "TF_CONFIG with a cluster domain", job: tfJob(workersOnly, func(j *core.Job) { j.Replicas[0].Count = 2 }), member: core.Member{Type: core.Worker}, domain: "tf.training.com",
			want: `TF_CONFIG={"cluster":{"worker":["mnist-worker-0.ml.svc.tf.training.com:2222","mnist-worker-1.ml.svc.tf.training.com:2222"]},"environment":"cloud","task":{"index":0,"type":"worker"}}`,
		},
		{name: "a worker that trains alone needs none", job: tfJob(workersOnly, func(j *core.Job) { j.Replicas[0].Count = 1 }), member: core.Member{Type: core.Worker}},
		{
			name: "a dynamic worker knows the parameter servers and itself", member: core.Member{Type: core.Worker, Index: 1},
			job: tfJob(func(j *core.Job) {
				j.Dynamic = true
				j.Replicas = []core.Replica{{Type: core.PS, Count: 2, Port: 2222}, {Type: core.Worker, Count: 3, Port: 2223}}
			}),
			want: `TF_CONFIG={"cluster":{"ps":["mnist-ps-0.ml.svc:2222","mnist-ps-1.ml.svc:2222"],"worker":{"1":"mnist-worker-1.ml.svc:2223"}},"task":{"index":1,"type":"worker"}}`,
		},
		{
			name: "a parameter server of dynamic workers knows itself", member: core.Member{Type: core.PS, Index: 1},
			job: tfJob(func(j *core.Job) {
				j.Dynamic = true
				j.Replicas = []core.Replica{{Type: core.PS, Count: 2, Port: 2222}, {Type: core.Worker, Count: 3, Port: 2222}}
			}),
			want: `TF_CONFIG={"cluster":{"ps":["mnist-ps-1.ml.svc:2222"],"worker":{}},"task":{"index":1,"type":"ps"}}`,
		},
		{
			name: "the Master of a PyTorchJob", job: torchJob(), member: core.Member{Type: core.Master}, every: true,
			want: "PYTHONUNBUFFERED=1 MASTER_PORT=23456 PET_MASTER_PORT=23456 MASTER_ADDR=bert-master-0 PET_MASTER_ADDR=bert-master-0 WORLD_SIZE=3 RANK=0 PET_NODE_RANK=0 PET_NPROC_PER_NODE=auto PET_NNODES=3",
		},
		{
			name: "a worker of a PyTorchJob with four processes in each pod", job: torchJob(func(j *core.Job) { j.Processes = "4" }, port(1234)), member: core.Member{Type: core.Worker, Index: 1}, every: true,
			want: "PYTHONUNBUFFERED=1 MASTER_PORT=1234 PET_MASTER_PORT=1234 MASTER_ADDR=bert-master-0 PET_MASTER_ADDR=bert-master-0 WORLD_SIZE=12 RANK=2 PET_NODE_RANK=2 PET_NPROC_PER_NODE=4 PET_NNODES=3",
		},
		{
			name: "a worker without a Master", job: torchJob(workersOnly), member: core.Member{Type: core.Worker}, every: true,
			want: "PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=auto PET_NNODES=2",
		},
		{
			name: "an elastic worker", member: core.Member{Type: core.Worker}, every: true,
			job:  torchJob(workersOnly, elastic(1, 3)),
			want: "PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=auto PET_RDZV_ENDPOINT=bert-worker-0:23456 PET_RDZV_BACKEND=c10d PET_NNODES=1:3",
		},
		{
			name: "an elastic worker with all settings", member: core.Member{Type: core.Worker}, every: true,
			job: torchJob(workersOnly, func(j *core.Job) {
				j.Processes = ""
				j.Elastic = &core.Elastic{Min: 1, Max: 3, Backend: "etcd", Host: "store", Port: 2379, ID: "run", Conf: "timeout=60,is_host=1", Standalone: true, Processes: &five, MaxRestarts: &three}
			}),
			want: "PYTHONUNBUFFERED=1 PET_RDZV_ENDPOINT=store:2379 PET_RDZV_BACKEND=etcd PET_NNODES=1:3 PET_MAX_RESTARTS=3 PET_NPROC_PER_NODE=5 PET_RDZV_ID=run PET_RDZV_CONF=timeout=60,is_host=1 PET_STANDALONE=",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			vars, every := training.Env(&tt.job, tt.member, tt.domain)
			var got []string
			for _, v := range vars {
				got = append(got, fmt.Sprintf("%s=%s", v.Name, v.Value))
			}
			if text := strings.Join(got, " "); text != tt.want || every != tt.every {
				t.Errorf("%s (every container: %v)\nwant %s (%v)", text, every, tt.want, tt.every)
			}
		})
	}
}

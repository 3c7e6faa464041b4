package sim_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/cluster"
	"berth.dev/berth/sim"
)

// openb is where the whole trace lies, if it is there.
const openb = "../../shared/traces/openb"

// load reads a workload: of the whole trace, or of the cut in testdata.
func load(t testing.TB, dir, nodes, pods string) (*cluster.Snapshot, []sim.Pod) {
	t.Helper()
	in, err := os.Open(filepath.Join(dir, nodes))
	if err != nil {
		t.Skipf("no trace: %v", err)
	}
	defer in.Close()
	specs, err := sim.ReadNodes(nodes, in)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cluster.New(specs)
	if err != nil {
		t.Fatal(err)
	}
	in, err = os.Open(filepath.Join(dir, pods))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	list, err := sim.ReadPods(pods, in, specs)
	if err != nil {
		t.Fatal(err)
	}
	return s, list
}

// whole reads a workload of the whole trace, or skips.
func whole(t testing.TB, workload string) (*cluster.Snapshot, []sim.Pod) {
	return load(t, openb, "openb_node_list_gpu_node.csv", "openb_pod_list_"+workload+".csv")
}

// small reads a workload of the cut.
func small(t testing.TB, workload string) (*cluster.Snapshot, []sim.Pod) {
	return load(t, "testdata", "nodes.csv", "pods_"+workload+".csv")
}

func TestBadNodesAreRefusedWithTheirPlace(t *testing.T) {
	const header = "sn,cpu_milli,memory_mib,gpu,model\n"
	for _, c := range []struct{ name, text, want string }{
		{"an empty file", "", "n.csv:1:1: the file is empty; its first line must name the columns"},
		{"a missing column", "sn,cpu_milli,memory_mib,gpu\n", `n.csv:1:1: no column "model"; the columns are sn, cpu_milli, memory_mib, gpu`},
		{"no name at all", "cpu_milli,memory_mib,gpu,model\n", `n.csv:1:1: no column "sn" or "name"; the columns are cpu_milli, memory_mib, gpu, model`},
		{"a column twice", "sn,gpu,gpu\n", `n.csv:1:8: column "gpu" is there twice; remove one`},
		{"no rows", header, "n.csv:1:1: no nodes; there must be one at least"},
		{"a bad number", header + "a,1000,1024,2,T4\nb,x,1024,2,T4\n", `n.csv:3:3: cpu_milli is "x"; it must be a whole number`},
		{"a fraction", header + "a,1000,1024,1.5,T4\n", `n.csv:2:13: gpu is "1.5"; it must be a whole number`},
		{"an empty number", header + "a,1000,,2,T4\n", `n.csv:2:8: memory_mib is ""; it must be a whole number`},
		{"a negative size", header + "a,1000,-1,2,T4\n", "n.csv:2:8: memory_mib is -1; it must not be negative"},
		{"a size beyond int64", header + "a,99999999999999999999,1,2,T4\n", "n.csv:2:3: cpu_milli is 99999999999999999999; it must be 1000000000 at most"},
		{"more GPUs than a node holds", header + "a,1000,1,128,T4\n", "n.csv:2:10: gpu is 128; it must be 127 at most"},
		{"an unknown model", header + "a,1000,1,2,V100M61\n", `n.csv:2:12: unknown GPU model "V100M61"; the nearest is V100M16`},
		{"GPUs of no model", header + "a,1000,1,2,\n", `n.csv:2:12: unknown GPU model ""; known are A10, G2, G3, P100, T4, V100M16, V100M32 and NVIDIA's product names, such as "NVIDIA H100 80GB HBM3"`},
		{"a duplicate node", header + "a,1000,1,2,T4\nb,1000,1,2,T4\na,1000,1,2,T4\n", "n.csv:4:1: node a is there twice; give each node a name of its own"},
		{"no name in a row", header + ",1000,1,2,T4\n", "n.csv:2:1: a node without a name"},
		{"a row too short", header + "a,1000\n", "n.csv:2:1: wrong number of fields"},
		{"a quote left open", header + "\"a,1000,1,2,T4\n", "n.csv:2:16: extraneous or missing \" in quoted-field"},
		{"MIG of a GPU without MIG", strings.TrimSpace(header) + ",mig\na,1000,1,1,Tesla T4,1g.5gb\n", "n.csv:2:21: profile 1g.5gb: Tesla T4 has no MIG; A100, A30, H100, H200, GH200, B200, B300 and RTX PRO 6000 Blackwell have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := sim.ReadNodes("n.csv", strings.NewReader(c.text))
			if err == nil {
				t.Fatalf("read; want %s", c.want)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBadPodsAreRefusedWithTheirPlace(t *testing.T) {
	const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,deletion_time\n"
	for _, c := range []struct{ name, text, want string }{
		{"a missing column", "name,cpu_milli,memory_mib,num_gpu\n", `p.csv:1:1: no column "gpu_milli"; the columns are name, cpu_milli, memory_mib, num_gpu`},
		{"a negative size", header + "a,-5,1,1,1000,,\n", "p.csv:2:3: cpu_milli is -5; it must not be negative"},
		{"more than a whole GPU", header + "a,5,1,1,1001,,\n", "p.csv:2:9: gpu_milli is 1001; it must be 1000 at most"},
		{"none of a GPU", header + "a,5,1,1,0,,\n", "p.csv:2:9: request for 1 GPUs: give either milli-GPUs or memory of each"},
		{"an unknown model", header + "a,5,1,1,1000,T4|T5,\n", `p.csv:2:14: unknown GPU model "T5"; the nearest is T4`},
		{"a time that is none", header + "a,5,1,1,1000,,soon\n", `p.csv:2:15: deletion_time is "soon"; it must be a number of seconds`},
		{"a time before time", header + "a,5,1,1,1000,,-1\n", "p.csv:2:15: deletion_time is -1; it must be from 0 to 1e+10 seconds"},
		{"a time that is no number", header + "a,5,1,1,1000,,NaN\n", "p.csv:2:15: deletion_time is NaN; it must be from 0 to 1e+10 seconds"},
		{"a duplicate pod", header + "a,5,1,1,1000,,\na,5,1,1,1000,,\n", "p.csv:3:1: pod a is there twice; give each pod a name of its own"},
		{"no rows", header, "p.csv:1:1: no pods; there must be one at least"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := sim.ReadPods("p.csv", strings.NewReader(c.text), nil)
			if err == nil {
				t.Fatalf("read; want %s", c.want)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPodsAreReadInAnyOrderOfColumns(t *testing.T) {
	got, err := sim.ReadPods("p.csv", strings.NewReader("\ufeffGPU_Milli, num_gpu ,memory_mib,cpu_milli,name,extra,gpu_spec,creation_time,scheduled_time,deletion_time,gpu_memory_mib\r\n"+
		"460,1,12,6000,a,?,V100M32|V100M16|V100M32,10,20,50,\r\n"+
		"0,0,12,6000,b,?,,10,,50,\r\n"+
		",1,12,6000,c,?,,,,,2048\r\n"), nil)
	want := []sim.Pod{
		{
			Name: "a", CPUMilli: 6000, MemoryBytes: 12 << 20, GPUs: 1, MilliGPU: 460,
			Models: []string{"V100M16", "V100M32"}, Arrival: 10, HasArrival: true, Run: 30, HasRun: true,
		},
		// It was created, never started, and has not run.
		{Name: "b", CPUMilli: 6000, MemoryBytes: 12 << 20, Arrival: 10, HasArrival: true},
		{Name: "c", CPUMilli: 6000, MemoryBytes: 12 << 20, GPUs: 1, GPUMemoryBytes: 2 << 30},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
}

func TestTheWholeTraceIsRead(t *testing.T) {
	s, pods := whole(t, "gpuspec20")
	models := s.ProductNames()
	slices.Sort(models)
	if s.Len() != 1213 || s.TotalGPUs() != 6212 || len(pods) != 8152 ||
		!slices.Equal(models, []string{"A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32"}) {
		t.Errorf("%d nodes, %d GPUs of %v, %d pods; the paper has 1,213, 6,212 of 7 models, 8,152", s.Len(), s.TotalGPUs(), models, len(pods))
	}
}

// FuzzCSV reads anything as nodes and as pods: it is refused in one line, or
// makes a cluster and requests that are valid.
func FuzzCSV(f *testing.F) {
	f.Add("sn,cpu_milli,memory_mib,gpu,model\na,1000,1,2,T4\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1,1,1,500,T4\n")
	f.Add("name,cpu_milli,memory_mib,gpu,model,mig,clique_gpus\na,1,1,8,NVIDIA A100-SXM4-40GB,3g.20gb|1g.5gb,4\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,mig_profile\np,1,1,1,,1g.5gb\n")
	f.Fuzz(func(t *testing.T, nodes, pods string) {
		specs, err := sim.ReadNodes("n.csv", strings.NewReader(nodes))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "n.csv:") {
				t.Fatalf("%q: an error without its place", err)
			}
			return
		}
		s, err := cluster.New(specs)
		if err != nil {
			return // too many products
		}
		list, err := sim.ReadPods("p.csv", strings.NewReader(pods), specs)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p.csv:") {
				t.Fatalf("%q: an error without its place", err)
			}
			return
		}
		for _, r := range sim.Requests(s, list) {
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

package can

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/api/kubeflow"
)

// other is a kind of another project that people know.
type other struct {
	kind string
	do   string // without that project
}

// The kinds of others. Berth runs other kinds of the API groups of beside, so people expect it to run these too.
var (
	beside = map[string][]other{
		kubeflow.Group: {
			{"JAXJob", "use a TrainJob or a Job"},
			{"XGBoostJob", "use a Job"},
			{"PaddleJob", "use a Job or a PyTorchJob"},
			{"MPIJob", "use a PyTorchJob or a TrainJob whose program is started by torchrun, or install the MPI Operator"},
		},
		kserve.Group: {
			{"LLMInferenceService", "use an InferenceService of format huggingface, or install KServe"},
			{"InferenceGraph", "call one InferenceService after the other from your program, or install KServe"},
		},
	}
	elsewhere = []other{
		{"InferenceService", "run `berth controller`, or install KServe"},
		{"RayJob", "install KubeRay"},
		{"RayCluster", "install KubeRay"},
		{"JobSet", "install JobSet, or use a TrainJob"},
		{"Workflow", "install Argo Workflows"},
		{"PrometheusRule", "install the Prometheus Operator"},
		{"ServiceMonitor", "install the Prometheus Operator"},
		{"ScaledObject", "install KEDA, or use a HorizontalPodAutoscaler"},
		{"NodePool", "install Karpenter"},
		{"ClusterPolicy", "install the GPU Operator"},
	}
)

// NotRun says that Berth does not run objects of a kind, and what to use without the project that does; "" is that Berth runs it, or
// that its group is another.
func NotRun(kind schema.GroupKind) string {
	for _, o := range beside[kind.Group] {
		if o.kind == kind.Kind {
			return notRun(o)
		}
	}
	return ""
}

// NotRunByName is NotRun of a kind as people type it, without its group and in any case.
func NotRunByName(kind string) string {
	for _, list := range beside {
		for _, o := range list {
			if strings.EqualFold(o.kind, kind) {
				return notRun(o)
			}
		}
	}
	return ""
}

func notRun(o other) string {
	return fmt.Sprintf("Berth does not run %ss: they start only if the project that defines them is installed; without it, %s", o.kind, o.do)
}

// Unserved says that a cluster does not serve a kind, and what helps.
func Unserved(kind schema.GroupVersionKind) string {
	out := fmt.Sprintf("no matches for kind %s in version %s: this cluster does not serve it", kind.Kind, kind.GroupVersion())
	for _, list := range [][]other{beside[kubeflow.Group], beside[kserve.Group], elsewhere} {
		for _, o := range list {
			if o.kind == kind.Kind {
				return out + "; " + o.do
			}
		}
	}
	return out + "; install what defines it, or correct apiVersion and kind"
}

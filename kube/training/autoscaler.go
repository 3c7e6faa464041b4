package training

import (
	"encoding/json"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/training"
)

// Autoscaler makes the HorizontalPodAutoscaler that changes the number of workers of an elastic PyTorchJob, by the metrics that
// the job has (pkg/controller.v1/pytorch/hpa.go of training-operator). It also has the labels of the job. The error names the metric that cannot be
// read.
func Autoscaler(o Object, j *training.Job) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	kind := KindOf(o.JobKind())
	least := int32(j.Elastic.Min) //nolint:gosec // it was read from an int32
	out := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: autoscalingv2.SchemeGroupVersion.String(), Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: j.Namespace, Name: j.Name, Labels: labels(j, ""), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, kind)},
		},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: j.Name},
			MinReplicas:    &least, MaxReplicas: int32(j.Elastic.Max), //nolint:gosec // it was read from an int32
		},
	}
	for i, m := range written(o).Spec.ElasticPolicy.Metrics {
		one := autoscalingv2.MetricSpec{}
		if err := json.Unmarshal(m.Raw, &one); err != nil {
			return nil, fmt.Errorf("spec.elasticPolicy.metrics[%d]: not a metric of a HorizontalPodAutoscaler: %w", i, err)
		}
		out.Spec.Metrics = append(out.Spec.Metrics, one)
	}
	return out, nil
}

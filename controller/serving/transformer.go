package serving

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/kserve"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// transformer is what there is of what stands before the model.
type transformer struct {
	existing *appsv1.Deployment // nil is none
	pods     []*corev1.Pod      // that are not being deleted and have not ended
	wanted   int
	refused  string // why its Deployment cannot be written; "" is that it can
}

// rolls reports whether pods of an older transformer are there.
func (t *transformer) rolls(made *objects.Children) bool { return older(t.pods, made) }

// waits returns what a pod of the newest transformer waits for, or why there is none; "" is nothing.
func (t *transformer) waits(made *objects.Children) string {
	if t.refused != "" {
		return t.refused
	}
	return waiting(t.pods, t.existing, made.Revision)
}

// writeTransformer brings the objects of the transformer to what they should be beside so many replicas of the model.
func (p *pass) writeTransformer(ctx context.Context, replicas int) (err error) {
	made := p.made.Transformer
	if made == nil {
		return p.drop(ctx, objects.TransformerName(p.object.Name), objects.IsTransformer)
	}
	p.front.wanted = p.written.Service.Transformer.Replicas(replicas)
	if err := made.Seal(p.front.wanted); err != nil {
		return err
	}
	p.front.refused, err = p.apart(func() error { return p.bring(ctx, made.Deployment, &appsv1.Deployment{}) })
	if err != nil {
		return err
	}
	if err := made.SealServices(); err != nil {
		return err
	}
	for _, service := range made.Services {
		if err := p.bring(ctx, service, &corev1.Service{}); err != nil {
			return err
		}
	}
	return nil
}

// seeTransformer returns what there is of the transformer; nil is that the service has none.
func (p *pass) seeTransformer(ctx context.Context) *rules.Seen {
	if p.made == nil || p.made.Transformer == nil {
		return nil
	}
	made := p.made.Transformer
	out := &rules.Seen{
		Service: &rules.Service{Name: p.object.Name, Stopped: p.written.Service.Stopped, Rollout: p.written.Service.Rollout, GPUs: p.written.Service.Transformer.GPUs},
		Wanted:  p.front.wanted, Why: "the model has no replicas", Waits: p.front.waits(made), Rolling: p.front.rolls(made) && p.front.wanted > 0,
	}
	out.Ready = answering(p.front.pods)
	p.seeReplicas(ctx, out, p.front.pods, made)
	return out
}

// transformerComponent is what the status says of the transformer.
func (p *pass) transformerComponent() kserve.Component {
	return kserve.Component{URL: objects.URL(objects.TransformerName(p.object.Name), p.object.Namespace, p.o.Domain)}
}

package can

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/cost"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/can"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/price"
	"berth.dev/berth/kube/request"
)

// place decides whether the pods of a unit would start now, and has them hold their places.
func (j *judge) place(ctx context.Context, u *unit) error {
	if u.Pods = len(u.of.Pods); j.plan == nil {
		u.State = unknown
		return nil
	}
	first := u.of.Pods[0]
	n := &explain.Newcomers{Pods: u.of.Pods, Need: cmp.Or(u.of.Need, can.Together(u.of.Pods))}
	n.Volumes, n.BadClaims = j.Volumes(ctx, first)
	n.BadClaims = slices.DeleteFunc(n.BadClaims, func(c reasons.Claim) bool {
		return j.made["PersistentVolumeClaim "+first.Namespace+"/"+c.Name] || !slices.Contains(claimed(first), c.Name)
	})
	n.NoClaims = slices.DeleteFunc(j.MissingClaims(ctx, first), func(name string) bool {
		kind, of, _ := strings.Cut(name, " ")
		return j.made[kind+" "+first.Namespace+"/"+of]
	})
	if u.State = waits; j.incomplete(ctx, u, n) {
		return nil
	}
	created, short := j.created(ctx, n.Pods)
	if n.Pods = n.Pods[:created]; short != nil {
		u.short(short)
		if created < max(n.Need, 1) {
			return nil
		}
	}
	taken := j.take(n)
	j.took(u, taken)
	switch left := n.Pods[len(taken):]; {
	case short == nil && len(left) == 0:
		u.State = starts
	case n.Need > 0 && len(taken) >= n.Need:
		u.State = starts
		u.Notes = append(u.Notes, fmt.Sprintf("%d of its pods would wait: it starts without them", u.Pods-len(taken)))
	case len(left) > 0:
		return j.explain(ctx, u, n, left)
	}
	return nil
}

// take has newcomers take places. Where pods like them got none since the last that got some, they get none either.
func (j *judge) take(n *explain.Newcomers) []*explain.Taken {
	if n.Need == 0 && !j.queued && j.seen[j.alike(n.Pods[0])] != nil {
		j.plan.Arrive(n.Pods)
		return nil
	}
	return j.plan.Take(n)
}

// alike is equal for pods of a namespace that fit on the same nodes: they differ only in what their containers run, and in labels by which
// no pod chooses nodes.
func (j *judge) alike(p *v1.Pod) string {
	q := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: p.Annotations}, Spec: *p.Spec.DeepCopy()}
	for _, list := range [][]v1.Container{q.Spec.InitContainers, q.Spec.Containers} {
		for i := range list {
			c := &list[i]
			list[i] = v1.Container{Name: c.Name, Ports: c.Ports, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy}
		}
	}
	key := p.Namespace + " " + template(q)
	if j.plan.Selects(p) {
		key += fmt.Sprint(" ", p.Labels)
	}
	return key
}

// claimed are the volume claims that a pod names; those that are made with it are not among them.
func claimed(p *v1.Pod) (out []string) {
	for i := range p.Spec.Volumes {
		if c := p.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			out = append(out, c.ClaimName)
		}
	}
	return out
}

// incomplete says what is missing beside room: the scheduler, other members of its gang, ConfigMaps, Secrets. It
// reports false if nothing is.
func (j *judge) incomplete(ctx context.Context, u *unit, n *explain.Newcomers) bool {
	first := n.Pods[0]
	if known := j.plan.NoScheduler(first); known != nil {
		u.Code, u.Never = string(reasons.CodeScheduler), true
		u.Cause = fmt.Sprintf("no scheduler called %s is seen in this cluster; pods are placed by %s: set schedulerName to one of them, or start that scheduler",
			first.Spec.SchedulerName, strings.Join(known, ", "))
		return true
	}
	if g, err := request.GangOf(first); err != nil {
		u.Code, u.Never, u.Cause = string(reasons.CodeInvalid), true, err.Error()
		return true
	} else if g != nil && g.MinCount > 0 {
		if there := j.plan.Members(g.Key) + len(n.Pods); there < g.MinCount {
			u.Code, u.Never = string(reasons.CodeGang), true
			u.Cause = fmt.Sprintf("its gang %s starts with %d pods, and there would be %d; add the others, or set a smaller number", g.Name, g.MinCount, there)
			return true
		}
	}
	if missing := j.missing(ctx, first); len(missing) > 0 {
		u.Code, u.Never = string(reasons.CodeConfig), true
		u.Cause = fmt.Sprintf("%s does not exist in namespace %s; create it, or mark it as optional", strings.Join(missing, " and "), first.Namespace)
		return true
	}
	return false
}

// missing are the ConfigMaps and Secrets that containers of a pod cannot start without, and that do not exist. One
// that may not be read is taken to exist.
func (j *judge) missing(ctx context.Context, p *v1.Pod) (out []string) {
	for _, ref := range needs(p) {
		if j.made[ref.kind+" "+p.Namespace+"/"+ref.name] {
			continue
		}
		var err error
		if ref.kind == "ConfigMap" {
			_, err = j.CoreV1().ConfigMaps(p.Namespace).Get(ctx, ref.name, metav1.GetOptions{})
		} else {
			_, err = j.CoreV1().Secrets(p.Namespace).Get(ctx, ref.name, metav1.GetOptions{})
		}
		if apierrors.IsNotFound(err) {
			out = append(out, ref.kind+" "+ref.name)
		}
	}
	return out
}

// reference names a ConfigMap or a Secret.
type reference struct{ kind, name string }

// needs are the ConfigMaps and Secrets that containers of a pod cannot start without, each once.
func needs(p *v1.Pod) (out []reference) {
	add := func(kind, name string, optional *bool) {
		if r := (reference{kind, name}); name != "" && (optional == nil || !*optional) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for i := range p.Spec.Volumes {
		if v := p.Spec.Volumes[i].ConfigMap; v != nil {
			add("ConfigMap", v.Name, v.Optional)
		}
		if v := p.Spec.Volumes[i].Secret; v != nil {
			add("Secret", v.SecretName, v.Optional)
		}
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			addEnvironment(&list[i], add)
		}
	}
	return out
}

// addEnvironment adds what the environment of a container is read from.
func addEnvironment(c *v1.Container, add func(kind, name string, optional *bool)) {
	for _, e := range c.EnvFrom {
		if e.ConfigMapRef != nil {
			add("ConfigMap", e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
		if e.SecretRef != nil {
			add("Secret", e.SecretRef.Name, e.SecretRef.Optional)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			add("ConfigMap", r.Name, r.Optional)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			add("Secret", r.Name, r.Optional)
		}
	}
}

// created is how many of pods the ResourceQuotas of their namespace let be created, which count from then on, and why
// not more.
func (j *judge) created(ctx context.Context, pods []*v1.Pod) (int, *reasons.QuotaShortage) {
	namespace := pods[0].Namespace
	if key := "ResourceQuotas of " + namespace; !j.made[key] {
		j.made[key] = true
		if list, err := j.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"}); err == nil {
			j.quotas[namespace] = append(j.quotas[namespace], list.Items...)
		}
	}
	quotas := j.quotas[namespace]
	j.plan.SetQuotas(quotas)
	for i, p := range pods {
		if short := explain.QuotaRoom(quotas, p, &v1.Pod{}); short != nil {
			return i, short
		}
		explain.Charge(quotas, p)
	}
	return len(pods), nil
}

// short notes that a ResourceQuota has no room for all pods.
func (u *unit) short(s *reasons.QuotaShortage) {
	u.Code, u.Cause = string(reasons.CodeQuota), s.String()
	u.Helps = append(u.Helps, "stop another workload of the namespace, ask for less, or ask for a larger quota")
	hard, err := resource.ParseQuantity(s.Hard)
	if more, err2 := resource.ParseQuantity(s.More); err == nil && err2 == nil {
		u.Never = more.Cmp(hard) > 0
	}
}

// took notes the places of the pods that start, by node, and what they cost.
func (j *judge) took(u *unit, taken []*explain.Taken) {
	if u.Starts = len(taken); len(taken) == 0 {
		return
	}
	clear(j.seen)
	var micros int64
	priced, currency := true, ""
	for _, one := range taken {
		i := slices.IndexFunc(u.Places, func(p place) bool { return p.Node == one.Node })
		if i < 0 {
			i, u.Places = len(u.Places), append(u.Places, place{Node: one.Node})
		}
		p := &u.Places[i]
		p.Pods++
		p.GPUs = append(p.GPUs, one.GPUs...)
		slices.Sort(p.GPUs)
		p.GPUs = slices.Compact(p.GPUs)
		if len(request.Of(one.Pod)) == 0 {
			continue
		}
		counted := devices.CountNode(j.nodes[one.Node], nil, nil)
		q := cost.PriceOf(price.Node(j.nodes[one.Node], counted.Product, counted.Physical), j.rules, j.o.Time())
		if q.Source == cost.Unpriced || one.MilliGPU == 0 || currency != "" && currency != q.Currency {
			priced = false
			continue
		}
		currency = q.Currency
		micros += cost.ShareOf(q.Micros, one.MilliGPU, int64(counted.Physical)*1000)
	}
	if priced && currency != "" {
		u.PricePerHour, u.Currency = new(float64(micros)/1e6), currency
	}
}

// explain says why the first of the pods that are left does not start, as `berth why` would.
func (j *judge) explain(ctx context.Context, u *unit, n *explain.Newcomers, left []*v1.Pod) error {
	key := j.alike(left[0])
	out := j.seen[key]
	if out == nil || n.Need > 0 {
		s, err := j.plan.Waiting(n, left)
		if err != nil {
			return err
		}
		j.plan.Expect(left)
		o, err := j.why.Outlook(ctx, s)
		j.plan.Forget(left)
		if err != nil {
			return err
		}
		out = &outlook{Outlook: *o}
		if !o.Never && n.Need == 0 {
			out.preempts, _ = s.Preempts()
		}
		j.seen[key] = out
	}
	u.Code, u.Never, u.Others = string(out.Code), out.Never, out.Others
	u.Cause, u.Helps = out.Cause, append(u.Helps, out.Helps...)
	if len(left) == 1 && out.preempts != "" && n.Need == 0 {
		u.State, u.Preempts, u.Starts = starts, true, u.Starts+1
		u.Notes = append(u.Notes, "pods of lower priority on "+out.preempts+" are evicted for it")
		return nil
	}
	if out.Start != nil && !out.Never {
		j.plan.Leave(left)
		u.waits, u.start = left[0], *out.Start
	}
	return nil
}

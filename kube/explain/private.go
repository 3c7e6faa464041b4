package explain

import v1 "k8s.io/api/core/v1"

// SetPrivate has the answers of a Cluster name only what is in the namespace of the pod that is
// asked about: they are for readers who may not read other namespaces.
func (t *Cluster) SetPrivate() { t.private = true }

// elsewherePod stands for the name of a pod that a reader may not know.
const elsewherePod = "a pod of another namespace"

// nameFor names a pod in an answer about pod.
func (t *Cluster) nameFor(pod, p *v1.Pod) string {
	if t.private && p.Namespace != pod.Namespace {
		return elsewherePod
	}
	return p.Namespace + "/" + p.Name
}

// podNamed names a pod as a sentence does: "pod ns/a".
func (t *Cluster) podNamed(pod, p *v1.Pod) string {
	if name := t.nameFor(pod, p); name != p.Namespace+"/"+p.Name {
		return name
	}
	return "pod " + p.Namespace + "/" + p.Name
}

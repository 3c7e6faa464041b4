package server

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/pool"
)

func TestTheLargestNodeIsOneThatIsThereOrThatAPoolBrings(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Capacity = v1.ResourceList{api.ResourceGPU: resource.MustParse("4")}
	if err := nodes.Add(node); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, pools string
		want        largest
	}{
		{"no pools are declared", "", largest{}},
		{"the node is larger", "[{name: a, max: 1, gpus: {count: 2}}]", largest{4, true}},
		{"a pool is larger, though it is full", "[{name: a, max: 1, gpus: {count: 2}}, {name: n, min: 1, max: 1, gpus: {count: 8}}]", largest{8, true}},
	} {
		client := fake.NewClientset()
		if test.pools != "" {
			client = fake.NewClientset(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}, Data: map[string]string{pool.Key: test.pools}})
		}
		got, err := lookAtPools(t.Context(), client, corelisters.NewNodeLister(nodes))
		if err != nil || *got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", test.name, got, err, test.want)
		}
	}
	bad := fake.NewClientset(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}, Data: map[string]string{pool.Key: "max: many"}})
	if got, err := lookAtPools(t.Context(), bad, corelisters.NewNodeLister(nodes)); err == nil {
		t.Errorf("pools that cannot be read are %+v", got)
	}
}

package fleet_test

import (
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// fakeAPI is client-go's fake API server, whose watches hand out copies. Its own
// hand out what it stores for the objects that are there when a watch begins (Watch
// in client-go's testing/fixture.go, v0.36), and a reflector may change what it is given.
func fakeAPI() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		in, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace(), a.(clienttesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		return true, copies(in), nil
	})
	return client
}

// copies is a watch that passes on copies of the objects of another, and stops it
// when it is stopped itself.
func copies(in watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer in.Stop()
		for {
			select {
			case e, ok := <-in.ResultChan():
				if !ok {
					return
				}
				e.Object = e.Object.DeepCopyObject()
				select {
				case events <- e:
				case <-out.StopChan():
					return
				}
			case <-out.StopChan():
				return
			}
		}
	}()
	return out
}

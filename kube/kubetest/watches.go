package kubetest

import (
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// OwnCopies has the watches of a fake client give copies of its objects, as those of an API server are the reader's own. Without it an
// object that is created between an informer's list and its watch is the one that the client keeps, and a transform changes it there.
// It holds for the reactions that the client has by then.
func OwnCopies(client *clienttesting.Fake) {
	client.Lock()
	defer client.Unlock()
	for i, r := range client.WatchReactionChain {
		client.WatchReactionChain[i] = copies{r}
	}
}

type copies struct{ clienttesting.WatchReactor }

func (c copies) React(a clienttesting.Action) (handled bool, events watch.Interface, err error) {
	handled, events, err = c.WatchReactor.React(a)
	if !handled || err != nil {
		return handled, events, err
	}
	return true, watch.Filter(events, func(e watch.Event) (watch.Event, bool) {
		e.Object = e.Object.DeepCopyObject()
		return e, true
	}), nil
}

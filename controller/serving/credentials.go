package serving

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	objects "berth.dev/berth/kube/serving"
)

// accountAgain is how long what a ServiceAccount lists is taken as known.
const accountAgain = 30 * time.Second

// allowed is what the download of a service's model is allowed with, as it was last read.
type allowed struct {
	account     string
	at          time.Time
	credentials *objects.Credentials
}

// readCredentials reads which Secrets the ServiceAccount lists with which the model is downloaded. It reads no Secret. An account that
// does not exist has none: the API server says so when it refuses the pods.
func (p *pass) readCredentials(ctx context.Context, w *objects.Written) error {
	name := w.Account()
	if name == "" {
		return nil
	}
	if m := &p.mem.allowed; m.account != name || p.now().Sub(m.at) >= accountAgain {
		account := &corev1.ServiceAccount{}
		err := p.live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, account)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read ServiceAccount %s/%s, for the credentials of the download: %w", p.object.Namespace, name, err)
		}
		*m = allowed{account: name, at: p.now(), credentials: objects.CredentialsOf(account)}
	}
	w.Use(p.mem.allowed.credentials, p.o.FetchImage)
	return nil
}

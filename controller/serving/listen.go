package serving

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api"
	"berth.dev/berth/controller/proxy"
	objects "berth.dev/berth/kube/serving"
)

// tokenSeconds is how long a token lives: as short as may be, since only the begin of a stream needs it.
const tokenSeconds = int64(10 * 60)

// listener returns what reads the figures of an activator's pod by the API server's proxy, line by line as they come.
func listener(mgr manager.Manager, kube kubernetes.Interface) (func(context.Context, string, func(*objects.Stats)) error, error) {
	web, root, err := proxy.Through(mgr.GetHTTPClient(), mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, pod string, line func(*objects.Stats)) error {
		seconds := tokenSeconds
		token, err := kube.CoreV1().ServiceAccounts(api.ActivatorNamespace).CreateToken(ctx, api.StatsReader, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("token of %s: %w", api.StatsReader, err)
		}
		url := fmt.Sprintf("%s%s/pods/https:%s:%d/proxy%s?watch=true", root, api.ActivatorNamespace, pod, api.ActivatorPort, api.StatsPath)
		return read(ctx, web, url, token.Status.Token, line)
	}, nil
}

// read reads lines until the stream ends, or is silent for too long.
func read(ctx context.Context, web *http.Client, url, token string, line func(*objects.Stats)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set(api.StatsTokenHeader, token)
	silence := time.AfterFunc(silentFor, cancel)
	defer silence.Stop()
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	for in := json.NewDecoder(resp.Body); ; silence.Reset(silentFor) {
		var s objects.Stats
		if err := in.Decode(&s); err != nil {
			return err
		}
		line(&s)
	}
}

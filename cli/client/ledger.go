package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// Ledger has the ledger of the cluster answer a question, such as cost or idle, and reads the answer into a value.
func (c *Cluster) Ledger(ctx context.Context, question string, params map[string]string, into any) error {
	return c.ledger(ctx, "GET", question, params, into)
}

// ChangeLedger has the ledger of the cluster change something, such as rerate, and reads the answer into a value.
func (c *Cluster) ChangeLedger(ctx context.Context, what string, params map[string]string, into any) error {
	return c.ledger(ctx, "POST", what, params, into)
}

func (c *Cluster) ledger(ctx context.Context, verb, name string, params map[string]string, into any) error {
	raw, err := c.call(ctx, verb, api.LedgerPath+name, params)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // the API server of `berth up` has it, and others have a meter at most
		there, failed := c.meter(ctx, verb, name, params)
		none := apierrors.IsNotFound(failed)
		if none && apierrors.IsNotFound(err) {
			return fmt.Errorf("read the ledger of %s: there is none; `berth up` keeps one, and so does `berth meter` in a cluster (deploy/meter-deployment.yaml)", c.Name)
		}
		if !none {
			raw, err = there, failed
		}
	}
	if err != nil {
		return c.Failed("read the ledger", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read the ledger of %s: its answer is not understood: %w", c.Name, err)
	}
	return nil
}

// meter asks `berth meter` in the cluster, through the API server's proxy.
func (c *Cluster) meter(ctx context.Context, verb, name string, params map[string]string) ([]byte, error) {
	account := api.LedgerReader
	if verb != http.MethodGet {
		account = api.LedgerWriter
	}
	seconds := int64(10 * 60) // the shortest life of a token
	token, err := c.CoreV1().ServiceAccounts(api.LedgerNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	path := "/api/v1/namespaces/" + api.LedgerNamespace + "/services/" + api.LedgerService + "/proxy" + api.LedgerPath + name
	return c.call(ctx, verb, path, params, api.LedgerTokenHeader, token.Status.Token)
}

package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"berth.dev/berth/controller/crd"
	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/controller/proxy"
	"berth.dev/berth/controller/queue"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/controller/serving"
	"berth.dev/berth/controller/training"
)

// controllerUser is who Berth's controllers are to the API server, and the name of
// their roles.
const controllerUser = "berth:controller"

// chooseMode returns the mode of a kind of work that is asked for, else the one that
// the folder had, else the one that follows the cluster.
func chooseMode(of, asked, had string) (string, error) {
	switch {
	case slices.Contains(runtime.Settings(), asked):
		return asked, nil
	case asked != "":
		return "", fmt.Errorf("%s %q: must be own, govern, off, or auto", of, asked)
	case had == "":
		return runtime.Auto, nil
	}
	return had, nil
}

// startControllers brings the definitions of Berth's kinds to the cluster, and runs
// their controllers once all else is ready. What it returns is closed when the kinds
// are served: being ready waits for that, and not for the controllers.
func (p *plane) startControllers(ctx context.Context, g *group, client kubernetes.Interface, ready <-chan struct{}) <-chan struct{} {
	served := make(chan struct{})
	if !p.controls() {
		close(served)
		return served
	}
	g.start(ctx, "Berth's controllers", "controllers", func(ctx context.Context) error {
		return p.runControllers(ctx, client, served, ready)
	})
	return served
}

// controls reports whether controllers of some kind run.
func (p *plane) controls() bool {
	off := string(runtime.Off)
	return p.state.Notebooks != off || p.state.Training != off || p.state.Serving != off
}

// runControllers grants the controllers their roles, brings the definitions of their
// kinds, closes served, and from ready on runs them until ctx ends.
func (p *plane) runControllers(ctx context.Context, client kubernetes.Interface, served chan<- struct{}, ready <-chan struct{}) error {
	began := time.Now()
	if err := grantControllers(ctx, client); err != nil {
		return err
	}
	done, err := crd.Install(ctx, unlimited(p.clients))
	if err != nil {
		return err
	}
	for _, d := range done {
		if d.Foreign {
			p.log.Info("a CustomResourceDefinition does not belong to Berth and is not changed", "definition", d.Name)
		}
	}
	close(served)
	p.log.Info("definitions are served", "after", time.Since(began))
	select {
	case <-ready:
	case <-ctx.Done():
		return nil
	}
	return runtime.Start(ctx, p.controllerConfig(), kinds(p.state.Notebooks, p.state.Training, p.state.Serving, serving.Options{Traffic: p.activator.Traffic, Wake: p.activator.Wakes()})...)
}

// kinds returns the kinds as this process runs them: the servers of notebooks are
// reached through the API server, as the names of Services do not resolve here.
func kinds(notebooks, jobs, services string, traffic serving.Options) []runtime.Kind {
	room := queue.NewRoom()
	return append([]runtime.Kind{
		notebook.Kind(notebooks, notebook.Options{FSGroup: true, Istio: true}, idle.Options{Proxied: true, Room: room}),
		queue.Kind(queue.Options{Room: room}),
		serving.Kind(services, traffic),
	}, training.Kinds(jobs, training.Options{})...)
}

// controllerConfig is the controllers' own identity, which has just the rights of
// grantControllers.
func (p *plane) controllerConfig() *rest.Config { return p.clientConfig(controllerFile) }

// grantControllers grants the controllers their roles, and makes those for people.
func grantControllers(ctx context.Context, client kubernetes.Interface) error {
	if err := grant(ctx, client, controllerUser, controllerUser, append(runtime.Rules(kinds("", "", "", serving.Options{})...), queue.ClassRules()...)); err != nil {
		return err
	}
	if err := grantIn(ctx, client, runtime.Namespace, controllerUser, slices.Concat(runtime.OwnRules(runtime.Name), proxy.ExporterRules())); err != nil {
		return err
	}
	for _, role := range slices.Concat(notebook.Roles(), training.Roles(), serving.Roles()) {
		if err := putRole(ctx, client, &role); err != nil {
			return fmt.Errorf("create role %s: %w", role.Name, err)
		}
	}
	everyone := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}
	for _, name := range []string{training.RoleRuntimes, serving.RoleRuntimes} {
		if err := bind(ctx, client, name, name, everyone); err != nil {
			return err
		}
	}
	return nil
}

// putRole makes a ClusterRole, or brings it up to date.
func putRole(ctx context.Context, client kubernetes.Interface, role *rbacv1.ClusterRole) error {
	_, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	return err
}

// grantIn makes a Role in a namespace and its binding to a user, both called as the
// user is, or brings them up to date.
func grantIn(ctx context.Context, client kubernetes.Interface, namespace, user string, rules []rbacv1.PolicyRule) error {
	api := client.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: namespace}, Rules: rules}
	_, err := api.Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = api.Roles(namespace).Update(ctx, role, metav1.UpdateOptions{})
	}
	if err == nil {
		_, err = api.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("bind the role of %s in %s: %w", user, namespace, err)
	}
	return nil
}

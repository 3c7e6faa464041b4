package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/kubeflow"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/internal/finding"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/profile"
	"berth.dev/berth/kube/spawn"
	"berth.dev/berth/kube/view"
)

// doctorSpawn is `berth doctor spawn`.
type doctorSpawn struct {
	notebookCommand
	choice profileChoice
	output outputFlags
}

func newDoctorSpawn(o Options) *cobra.Command {
	d := &doctorSpawn{notebookCommand: notebookCommand{o: o}}
	cmd := &cobra.Command{
		Use:   "spawn USER",
		Short: "Check each step of starting a user's notebook, and report the first that fails",
		Long: "Predict whether USER could start a notebook from a profile now. Checks namespace, controller, profile,\n" +
			"permissions, volumes, quota, admission, image, nodes, and GPUs, and suggests fixes. Nothing is created (API\n" +
			"server dry run). If GPUs are in use, the notebook would wait. Exits with code 3 if a step fails.",
		Example: "  berth doctor spawn ada\n  berth doctor spawn ada --profile gpu --option image=pytorch --group staff -n hub",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args[0]) },
	}
	d.flags(cmd)
	d.output.add(cmd)
	f := cmd.Flags()
	f.StringVar(&d.choice.name, "profile", "", "the NotebookProfile (default: the user's default profile)")
	f.StringToStringVar(&d.choice.options, "option", nil, "choice for an option of the profile, as OPTION=CHOICE")
	f.StringToStringVar(&d.choice.unlisted, "unlisted", nil, "custom value for an option, as OPTION=VALUE")
	f.StringArrayVar(&d.choice.groups, "group", nil, "group of the user (repeatable)")
	return cmd
}

func (d *doctorSpawn) run(ctx context.Context, user string) error {
	if err := checkFindings(&d.output); err != nil {
		return err
	}
	n, err := d.connect()
	if err != nil {
		return err
	}
	d.choice.user = user
	facts, err := n.spawnFacts(ctx, &d.choice)
	if err != nil {
		return err
	}
	found := spawn.Judge(facts)
	return d.o.findings(&d.output, found, outcome(user, facts, found))
}

// outcome is the answer in a sentence.
func outcome(user string, f *spawn.Facts, found []finding.Finding) string {
	if first := spawn.First(found); first != "" {
		return "the first failed step is " + first
	}
	if last := found[len(found)-1]; last.Name == spawn.GPUs && last.Status != finding.OK {
		return fmt.Sprintf("a notebook for %s would be queued", user)
	}
	return fmt.Sprintf("notebook %s for %s would start now", f.Object.Name, user)
}

// spawnFacts reads what a start needs. Objects that the user cannot read are noted; an error is a
// cluster that does not answer.
func (n *notebooks) spawnFacts(ctx context.Context, choice *profileChoice) (*spawn.Facts, error) {
	f := &spawn.Facts{User: choice.user, Space: n.namespace, Profile: choice.name, Unread: map[string]string{}, Now: n.o.now()}
	var err error
	f.Found, err = n.CoreV1().Namespaces().Get(ctx, n.namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		f.Found = nil
		return f, nil
	case apierrors.IsForbidden(err):
		f.Unread[spawn.Namespace] = "you cannot read namespaces"
	case err != nil:
		return nil, n.failed("read namespace "+n.namespace, err)
	}
	n.readController(ctx, f)
	if f.Wrong = n.readProfile(ctx, f, choice); f.Wrong != nil {
		return f, nil //nolint:nilerr // what is wrong with the profile is a finding
	}
	n.readRights(ctx, f)
	if err := n.readSpace(ctx, f); err != nil {
		return nil, err
	}
	f.Refusal, f.Unread[spawn.Admission] = n.tryPod(ctx, f)
	nodes, pods, err := n.cluster.list(ctx, "")
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	if err != nil {
		for _, link := range []string{spawn.Image, spawn.Nodes, spawn.GPUs} {
			f.Unread[link] = "you cannot list nodes or the pods of all namespaces"
		}
		return f, nil
	}
	f.Nodes = nodes
	f.Volumes, _ = n.volumesOf(ctx, f.Pod)
	f.Pods = slices.DeleteFunc(pods, func(p *v1.Pod) bool { return p.Namespace == f.Pod.Namespace && p.Name == f.Pod.Name })
	return f, nil
}

// readController reads who runs notebooks.
func (n *notebooks) readController(ctx context.Context, f *spawn.Facts) {
	_, err := n.in(n.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	f.Served = !noSuchKind(err)
	if f.Mode, f.Why, err = view.NotebookMode(ctx, n.Interface); err != nil {
		f.Unread[spawn.Controller] = "you cannot read ConfigMaps in " + view.ModesNamespace
		return
	}
	if lease, err := n.CoordinationV1().Leases(view.ModesNamespace).Get(ctx, view.ModesName, metav1.GetOptions{}); err == nil {
		f.Lease = lease
	}
}

// readProfile makes the notebook and its pod. The error is the finding.
func (n *notebooks) readProfile(ctx context.Context, f *spawn.Facts, choice *profileChoice) error {
	list, err := n.profiles(ctx)
	if err != nil {
		return err
	}
	of, err := profile.Pick(list, choice.name, choice.groups)
	if err != nil {
		return err
	}
	f.Profile = of.Name
	there, err := n.claims(ctx)
	if err != nil {
		there = nil // the claim is read below, and there it is said that it cannot be read
	}
	f.Object, f.Home, f.Warnings, err = profile.Render(of, profile.Choices{
		User: choice.user, Namespace: n.namespace, Groups: choice.groups, Options: choice.options, Unlisted: choice.unlisted, Claims: namesOf(there),
	})
	if err != nil {
		return err
	}
	f.Pod = podOfNotebook(f.Object)
	f.Pod.Labels = maps.Clone(f.Object.Labels)
	return nil
}

// readRights asks whether the user and the caller may create notebooks.
func (n *notebooks) readRights(ctx context.Context, f *spawn.Facts) {
	may := authorizationv1.ResourceAttributes{Namespace: n.namespace, Verb: "create", Group: kubeflow.Group, Resource: "notebooks"}
	mine, err := n.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &may},
	}, metav1.CreateOptions{})
	f.AskerMay = err == nil && mine.Status.Allowed
	if n.whoami(ctx).Username == f.User {
		f.UserMay = f.AskerMay
		return
	}
	theirs, err := n.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: f.User, Groups: []string{"system:authenticated"}, ResourceAttributes: &may},
	}, metav1.CreateOptions{})
	if err != nil {
		f.Unread[spawn.Rights] = "you cannot check the permissions of others"
		return
	}
	f.UserMay = theirs.Status.Allowed
}

// readSpace reads the notebook of that name, claims, classes and quotas.
func (n *notebooks) readSpace(ctx context.Context, f *spawn.Facts) error {
	was, err := n.in(n.namespace).Get(ctx, f.Object.Name, metav1.GetOptions{})
	if err == nil {
		nb, err := notebookOf(was)
		if err != nil {
			return err
		}
		f.Existing, f.Trouble = stateSentence(nb), inTrouble(state(nb))
	}
	for _, name := range explain.ClaimsOf(f.Pod) {
		claim, err := n.CoreV1().PersistentVolumeClaims(n.namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			f.Claims = append(f.Claims, claim)
		case apierrors.IsForbidden(err):
			f.Unread[spawn.Volumes] = "you cannot read PersistentVolumeClaims in " + n.namespace
		case !apierrors.IsNotFound(err):
			return n.failed("read PersistentVolumeClaim "+name, err)
		}
	}
	if list, err := n.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{}); err == nil {
		f.Classes = list.Items
	} else {
		f.Unread[spawn.Volumes] = "you cannot list storage classes"
	}
	if list, err := n.CoreV1().ResourceQuotas(n.namespace).List(ctx, metav1.ListOptions{}); err == nil {
		f.Quotas = list.Items
	} else {
		f.Unread[spawn.Quota] = "you cannot list quotas in " + n.namespace
	}
	return nil
}

// inTrouble reports whether a notebook in a state does not get ready by waiting.
func inTrouble(s reasons.Reason) bool {
	switch s { //nolint:exhaustive // the rest is well, or on its way
	case reasons.Ready, reasons.Starting, reasons.Pulling, reasons.Queued, reasons.Stopped, reasons.Restarting, reasons.Terminating:
		return false
	}
	return true
}

// tryPod has the API server check the pod as if it were to be made, and gives what it
// refuses; unread says why that could not be tried.
func (n *notebooks) tryPod(ctx context.Context, f *spawn.Facts) (refusal, unread string) {
	pod := f.Pod.DeepCopy()
	pod.Name, pod.GenerateName = "", f.Object.Name+"-"
	_, err := n.CoreV1().Pods(n.namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: "berth"})
	switch {
	case err == nil:
		return "", ""
	case apierrors.IsForbidden(err) && n.mayNot(ctx, "create", "pods"):
		return "", "you cannot create pods in " + n.namespace + ", not even as a dry run"
	}
	return err.Error(), ""
}

// mayNot reports whether the caller lacks a permission in the namespace.
func (n *notebooks) mayNot(ctx context.Context, verb, resource string) bool {
	got, err := n.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: n.namespace, Verb: verb, Resource: resource}},
	}, metav1.CreateOptions{})
	return err == nil && !got.Status.Allowed
}

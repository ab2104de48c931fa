package local

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// image names the image that stands in for a package.
func (w wishes) image(pkg string) string {
	if pkg == redisPackage {
		return w.redisImage
	}
	return w.postgresImage
}

// ensureImages sees to it that a Docker engine has the images of what is
// missing, and of Kafka where it is asked for as a container, and gives what is
// still missing then. Where containers are asked for by name, nothing else will
// do and a fault is returned instead.
func ensureImages(ctx context.Context, out io.Writer, missing []string) (still []string, err error) {
	asked, err := wished()
	if err != nil {
		return nil, err
	}
	given := GivenByEnvironment()
	kafka := given.Docker && len(given.Kafka) == 0
	if asked.servers == serversPrograms {
		still, missing = missing, nil
	}
	if len(missing) == 0 && !kafka {
		return still, nil
	}
	must := asked.servers == serversDocker
	e, err := findEngine(ctx)
	if err != nil {
		switch {
		case must:
			return nil, fmt.Errorf("HANJUL_SERVERS=%s: %w", serversDocker, err)
		case kafka:
			return nil, fmt.Errorf("HANJUL_KAFKA=%s: %w", kafkaDocker, err)
		}
		return missing, nil
	}
	defer e.close()
	if kafka {
		if err := e.announce(ctx, out, asked.kafkaImage); err != nil {
			return nil, fmt.Errorf("HANJUL_KAFKA=%s: %w", kafkaDocker, err)
		}
	}
	for _, pkg := range missing {
		err := e.announce(ctx, out, asked.image(pkg))
		switch {
		case err == nil:
		case must:
			return nil, fmt.Errorf("HANJUL_SERVERS=%s: %w", serversDocker, err)
		default:
			_, _ = fmt.Fprintf(out, "no container stands in for %s: %v\n", pkg, err)
			still = append(still, pkg)
		}
	}
	return still, nil
}

// announce fetches an image, which may take minutes, and says so.
func (e *engine) announce(ctx context.Context, out io.Writer, image string) error {
	if !errors.Is(e.has(ctx, image), ErrMissing) {
		return nil
	}
	_, _ = fmt.Fprintf(out, "fetching the image %s into %s\n", image, e.describe())
	return e.fetch(ctx, image)
}

// lackingImages gives what of the missing no image stands in for, and why, and
// fetches none.
func lackingImages(ctx context.Context, missing []string) (still []string, why, err error) {
	asked, err := wished()
	if err != nil || len(missing) == 0 || asked.servers == serversPrograms {
		return missing, nil, err
	}
	e, err := findEngine(ctx)
	if err != nil {
		return missing, err, nil
	}
	defer e.close()
	var reasons []error
	for _, pkg := range missing {
		if err := e.has(ctx, asked.image(pkg)); err != nil {
			still, reasons = append(still, pkg), append(reasons, err)
		}
	}
	return still, errors.Join(reasons...), nil
}

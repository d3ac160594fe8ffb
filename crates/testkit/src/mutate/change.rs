use fastrand::Rng;

use super::tree::{Node, Tree};

/// The most changes of one template.
const MOST: usize = 4;

/// Where a node is: its index, and for each block around it the index of the block and of the part.
type Path = Vec<usize>;

/// Changes a few statements of a template: deletes, doubles, swaps or nests them. Its blocks stay balanced.
pub fn changed(tree: &Tree, rng: &mut Rng) -> Tree {
    let mut tree = tree.clone();
    for _ in 0..rng.usize(1..=MOST) {
        let mut paths = Vec::new();
        add_paths(&tree.nodes, &mut Vec::new(), &mut paths);
        let Some(one) = pick(&paths, rng) else { return tree };
        match rng.u8(..8) {
            0 | 1 => delete(&mut tree, &one),
            2 => double(&mut tree, &one),
            3 | 4 => {
                let others: Vec<Path> = paths.into_iter().filter(|path| is_apart(path, &one)).collect();
                if let Some(other) = pick(&others, rng) {
                    swap(&mut tree, &one, &other);
                }
            }
            5 => {
                // The blocks of the template itself have conditions that mean something to it.
                let blocks: Vec<Path> =
                    paths.into_iter().filter(|path| matches!(node_at(&tree, path), Some(Node::Block { .. }))).collect();
                if let Some(block) = pick(&blocks, rng) {
                    wrap(&mut tree, &one, &block);
                }
            }
            _ => {
                let others: Vec<Path> = paths.into_iter().filter(|path| is_apart(path, &one)).collect();
                if let Some(other) = pick(&others, rng) {
                    put_into(&mut tree, &one, &other, rng);
                }
            }
        }
    }
    tree
}

fn pick(paths: &[Path], rng: &mut Rng) -> Option<Path> {
    (!paths.is_empty()).then(|| paths[rng.usize(..paths.len())].clone())
}

fn add_paths(nodes: &[Node], around: &mut Path, paths: &mut Vec<Path>) {
    for (at, node) in nodes.iter().enumerate() {
        around.push(at);
        paths.push(around.clone());
        if let Node::Block { parts, .. } = node {
            for (part, (_, body)) in parts.iter().enumerate() {
                around.push(part);
                add_paths(body, around, paths);
                around.pop();
            }
        }
        around.pop();
    }
}

/// Reports whether neither of two nodes contains the other.
fn is_apart(one: &[usize], other: &[usize]) -> bool {
    !one.starts_with(other) && !other.starts_with(one)
}

fn node_at<'t>(tree: &'t Tree, path: &[usize]) -> Option<&'t Node> {
    let (mut nodes, mut path) = (&tree.nodes, path);
    loop {
        match path {
            [at] => return nodes.get(*at),
            [at, part, rest @ ..] => {
                let Node::Block { parts, .. } = nodes.get(*at)? else { return None };
                (nodes, path) = (&parts.get(*part)?.1, rest);
            }
            [] => return None,
        }
    }
}

/// Returns the nodes next to a node, and its index among them.
fn around<'t>(nodes: &'t mut Vec<Node>, path: &[usize]) -> Option<(&'t mut Vec<Node>, usize)> {
    match path {
        [at] => Some((nodes, *at)),
        [at, part, rest @ ..] => match nodes.get_mut(*at)? {
            Node::Block { parts, .. } => around(&mut parts.get_mut(*part)?.1, rest),
            Node::Leaf(_) => None,
        },
        [] => None,
    }
}

fn delete(tree: &mut Tree, path: &[usize]) {
    if let Some((nodes, at)) = around(&mut tree.nodes, path) {
        nodes.remove(at);
    }
}

fn double(tree: &mut Tree, path: &[usize]) {
    if let Some((nodes, at)) = around(&mut tree.nodes, path) {
        nodes.insert(at, nodes[at].clone());
    }
}

fn replace(tree: &mut Tree, path: &[usize], by: Node) {
    if let Some((nodes, at)) = around(&mut tree.nodes, path) {
        nodes[at] = by;
    }
}

fn swap(tree: &mut Tree, one: &[usize], other: &[usize]) {
    let nodes = node_at(tree, one).cloned().zip(node_at(tree, other).cloned());
    if let Some((first, second)) = nodes {
        replace(tree, one, second);
        replace(tree, other, first);
    }
}

/// Puts a node into a copy of a block that has nothing else.
fn wrap(tree: &mut Tree, path: &[usize], block: &[usize]) {
    let Some(Node::Block { parts, end }) = node_at(tree, block) else { return };
    let (Some((tag, _)), end) = (parts.first().cloned(), end.clone()) else { return };
    if let Some(node) = node_at(tree, path).cloned() {
        replace(tree, path, Node::Block { parts: vec![(tag, vec![node])], end });
    }
}

/// Adds a copy of a node to the body of a block, or next to a node that is none.
fn put_into(tree: &mut Tree, path: &[usize], other: &[usize], rng: &mut Rng) {
    let Some(copy) = node_at(tree, path).cloned() else { return };
    let Some((nodes, at)) = around(&mut tree.nodes, other) else { return };
    match &mut nodes[at] {
        Node::Block { parts, .. } if !parts.is_empty() => {
            let part = rng.usize(..parts.len());
            let body = &mut parts[part].1;
            body.insert(rng.usize(..=body.len()), copy);
        }
        _ => nodes.insert(at, copy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_stays_balanced_and_differs() {
        let source = "a{% for m in x %}{% if m %}b{{ m }}{% else %}c{% endif %}{% endfor %}d";
        let tree = Tree::read(source).expect("it is balanced");
        let mut sources = std::collections::BTreeSet::new();
        for seed in 0..500 {
            let changed = changed(&tree, &mut Rng::with_seed(seed)).write();
            assert_eq!(Tree::read(&changed).map(|tree| tree.write()).as_deref(), Some(changed.as_str()));
            sources.insert(changed);
        }
        assert!(sources.len() > 300, "only {} templates", sources.len());
    }
}

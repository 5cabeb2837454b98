-- The questions of examples/social in SQL. Each begins with its name; first come the views.

-- views
CREATE VIEW message AS
    SELECT id, creationDate AS written, coalesce(content, imageFile) AS said FROM Post
    UNION ALL SELECT id, creationDate, content FROM Comment;
CREATE VIEW friend AS
    SELECT src AS a, dst AS b, creationDate AS since FROM Knows
    UNION ALL SELECT dst, src, creationDate FROM Knows;
CREATE VIEW around AS
    SELECT a, b FROM friend
    UNION SELECT x.a, y.b FROM friend x JOIN friend y ON y.a = x.b WHERE x.a <> y.b;
CREATE VIEW author AS SELECT src AS m, dst AS p FROM HasCreator;
CREATE VIEW begun AS
    WITH RECURSIVE up(m, top) AS (
        SELECT id, id FROM message UNION ALL SELECT m, dst FROM up JOIN ReplyOf ON src = top
    ) SELECT m, top AS post FROM up JOIN Post ON id = top;
CREATE VIEW message_tag AS SELECT src AS m, dst AS t FROM HasTag WHERE src_type <> 'Forum';
CREATE VIEW home AS SELECT src AS p, dst AS city FROM IsLocatedIn WHERE src_type = 'Person';
CREATE VIEW place AS SELECT src AS m, dst AS country FROM IsLocatedIn
    WHERE src_type IN ('Post', 'Comment');
CREATE VIEW within AS SELECT src AS city, dst AS country FROM IsPartOf WHERE src_type = 'City';

-- q1
SELECT count(*) FROM within JOIN home USING (city) JOIN HasMember f ON f.dst = home.p
JOIN ContainerOf o ON o.src = f.src JOIN ReplyOf r ON r.dst = o.dst AND r.dst_type = 'Post'
JOIN message_tag ON m = r.src JOIN HasType ON HasType.src = t

-- q2
SELECT count(*) FROM friend JOIN author c ON c.p = a
JOIN ReplyOf r ON r.src = c.m AND r.dst_type = 'Post' JOIN author o ON o.m = r.dst AND o.p = b

-- q3
SELECT count(*) FROM friend x JOIN friend y ON y.a = x.b JOIN friend z ON z.a = y.b AND z.b = x.a
JOIN home hx ON hx.p = x.a JOIN home hy ON hy.p = y.a JOIN home hz ON hz.p = z.a
JOIN within ix ON ix.city = hx.city
JOIN within iy ON iy.city = hy.city AND iy.country = ix.country
JOIN within iz ON iz.city = hz.city AND iz.country = ix.country

-- q4
SELECT count(*) FROM message_tag JOIN author USING (m) JOIN Likes ON Likes.dst = m
JOIN ReplyOf ON ReplyOf.dst = m

-- q5
SELECT count(*) FROM message_tag t JOIN ReplyOf r ON r.dst = t.m JOIN message_tag u ON u.m = r.src
WHERE u.t <> t.t

-- q6
SELECT count(*) FROM friend x JOIN friend y ON y.a = x.b JOIN HasInterest ON src = y.b
WHERE x.a <> y.b

-- q7
SELECT count(*) FROM message_tag JOIN author USING (m) LEFT JOIN Likes ON Likes.dst = m
LEFT JOIN ReplyOf ON ReplyOf.dst = m

-- q8
SELECT count(*) FROM message_tag t JOIN ReplyOf r ON r.dst = t.m JOIN message_tag u ON u.m = r.src
WHERE u.t <> t.t AND NOT EXISTS (SELECT 1 FROM message_tag v WHERE v.m = r.src AND v.t = t.t)

-- q9
SELECT count(*) FROM friend x JOIN friend y ON y.a = x.b JOIN HasInterest ON src = y.b
WHERE x.a <> y.b AND NOT EXISTS (SELECT 1 FROM friend z WHERE z.a = x.a AND z.b = y.b)

-- is1
SELECT firstName, lastName, birthday, locationIP, browserUsed, city, gender, creationDate
FROM Person JOIN home ON p = id WHERE id = $personId

-- is2
SELECT message.id, said, written, begun.post, o.id, firstName, lastName
FROM author a JOIN message ON message.id = a.m JOIN begun ON begun.m = a.m
JOIN author starter ON starter.m = begun.post JOIN Person o ON o.id = starter.p
WHERE a.p = $personId ORDER BY written DESC, message.id DESC LIMIT 10

-- is3
SELECT id, firstName, lastName, since FROM friend JOIN Person ON id = b WHERE a = $personId
ORDER BY since DESC, id

-- is4
SELECT written, said FROM message WHERE id = $messageId

-- is5
SELECT id, firstName, lastName FROM author JOIN Person ON id = p WHERE m = $messageId

-- is6
SELECT f.id, title, p.id, firstName, lastName FROM begun JOIN ContainerOf c ON c.dst = post
JOIN Forum f ON f.id = c.src JOIN HasModerator h ON h.src = f.id JOIN Person p ON p.id = h.dst
WHERE m = $messageId

-- is7
SELECT c.id, c.content, c.creationDate, q.id, q.firstName, q.lastName,
    EXISTS (SELECT 1 FROM friend WHERE a = whose.p AND b = q.id)
FROM author whose JOIN ReplyOf r ON r.dst = whose.m JOIN Comment c ON c.id = r.src
JOIN author w ON w.m = c.id JOIN Person q ON q.id = w.p
WHERE whose.m = $messageId ORDER BY c.creationDate DESC, q.id

-- ic1
WITH RECURSIVE step(b, n) AS (
    SELECT $personId::BIGINT, 0
    UNION SELECT friend.b, n + 1 FROM step JOIN friend ON a = step.b WHERE n < 3
), far AS (SELECT b, min(n) AS distance FROM step GROUP BY b)
SELECT q.id, lastName, distance, birthday, creationDate, gender, browserUsed, locationIP, email,
    speaks, city.name,
    (SELECT coalesce(list_sort(list(concat_ws(' ', u.name, classYear, c.name))), [])
     FROM StudyAt s JOIN University u ON u.id = s.dst
     JOIN IsLocatedIn l ON l.src = u.id AND l.src_type = 'University' JOIN City c ON c.id = l.dst
     WHERE s.src = q.id),
    (SELECT coalesce(list_sort(list(concat_ws(' ', f.name, workFrom, c.name))), [])
     FROM WorkAt s JOIN Company f ON f.id = s.dst
     JOIN IsLocatedIn l ON l.src = f.id AND l.src_type = 'Company' JOIN Country c ON c.id = l.dst
     WHERE s.src = q.id)
FROM far JOIN Person q ON q.id = b JOIN home ON p = q.id JOIN City city ON city.id = home.city
WHERE firstName = $firstName AND q.id <> $personId ORDER BY distance, lastName, q.id LIMIT 20

-- ic2
SELECT q.id, firstName, lastName, message.id, said, written FROM friend JOIN Person q ON q.id = b
JOIN author ON p = b JOIN message ON message.id = m WHERE a = $personId AND written < $maxDate
ORDER BY written DESC, message.id LIMIT 20

-- ic3
SELECT q.id, firstName, lastName, count(*) FILTER (c.name = $countryX) AS x,
    count(*) FILTER (c.name = $countryY) AS y, count(*) AS n
FROM around JOIN Person q ON q.id = b JOIN author ON p = b JOIN message ON message.id = m
JOIN place USING (m) JOIN Country c ON c.id = country
WHERE a = $personId AND written >= $start AND written < $start + to_days($days)
AND c.name IN ($countryX, $countryY) AND b NOT IN (
    SELECT p FROM home JOIN within USING (city) JOIN Country h ON h.id = country
    WHERE h.name IN ($countryX, $countryY))
GROUP BY ALL HAVING x > 0 AND y > 0 ORDER BY n DESC, q.id LIMIT 20

-- ic4
WITH used AS (
    SELECT t, written FROM friend JOIN author ON p = b JOIN Post ON Post.id = m
    JOIN message ON message.id = m JOIN message_tag USING (m) WHERE a = $personId
)
SELECT name, count(*) AS n FROM used JOIN Tag ON id = t
WHERE written >= $start AND written < $start + to_days($days)
AND t NOT IN (SELECT t FROM used WHERE written < $start)
GROUP BY name ORDER BY n DESC, name LIMIT 10

-- ic5
SELECT title, count(posted.m) AS n, f.id FROM around JOIN HasMember h ON h.dst = b
JOIN Forum f ON f.id = h.src
LEFT JOIN (SELECT src, m, p FROM ContainerOf JOIN author ON m = dst) posted
    ON posted.src = f.id AND posted.p = b
WHERE a = $personId AND joinDate > $minDate GROUP BY title, f.id ORDER BY n DESC, f.id LIMIT 20

-- ic6
SELECT o.name, count(DISTINCT Post.id) AS n FROM around JOIN author ON p = b JOIN Post ON id = m
JOIN message_tag x ON x.m = Post.id JOIN Tag k ON k.id = x.t JOIN message_tag y ON y.m = Post.id
JOIN Tag o ON o.id = y.t
WHERE a = $personId AND k.name = $tagName AND o.id <> k.id GROUP BY o.name
ORDER BY n DESC, o.name LIMIT 10

-- ic7
SELECT q.id, firstName, lastName, l.creationDate, message.id, said,
    date_diff('millisecond', written, l.creationDate) // 60000,
    NOT EXISTS (SELECT 1 FROM friend WHERE a = $personId AND b = q.id)
FROM author JOIN message ON message.id = m JOIN Likes l ON l.dst = m JOIN Person q ON q.id = l.src
WHERE author.p = $personId
QUALIFY row_number() OVER (PARTITION BY q.id ORDER BY l.creationDate DESC, message.id) = 1
ORDER BY l.creationDate DESC, q.id LIMIT 20

-- ic8
SELECT q.id, firstName, lastName, c.creationDate, c.id, c.content FROM author whose
JOIN ReplyOf r ON r.dst = whose.m JOIN Comment c ON c.id = r.src JOIN author w ON w.m = c.id
JOIN Person q ON q.id = w.p WHERE whose.p = $personId ORDER BY c.creationDate DESC, c.id LIMIT 20

-- ic9
SELECT q.id, firstName, lastName, message.id, said, written FROM around JOIN Person q ON q.id = b
JOIN author ON p = b JOIN message ON message.id = m WHERE a = $personId AND written < $maxDate
ORDER BY written DESC, message.id LIMIT 20

-- ic10
WITH liked AS (
    SELECT DISTINCT m FROM message_tag JOIN HasInterest ON dst = t WHERE src = $personId
), posted AS (
    SELECT p, count(*) AS posts, count(*) FILTER (m IN (FROM liked)) AS common
    FROM author JOIN Post ON id = m GROUP BY p
)
SELECT q.id, firstName, lastName,
    coalesce(common, 0) - (coalesce(posts, 0) - coalesce(common, 0)) AS score, gender, c.name
FROM around JOIN Person q ON q.id = b JOIN home ON home.p = b JOIN City c ON c.id = city
LEFT JOIN posted ON posted.p = b
WHERE a = $personId AND (a, b) NOT IN (SELECT (a, b) FROM friend)
AND (month(birthday) = $month AND day(birthday) >= 21
     OR month(birthday) = $month % 12 + 1 AND day(birthday) < 22)
ORDER BY score DESC, q.id LIMIT 10

-- ic11
SELECT q.id, firstName, lastName, f.name, workFrom FROM around JOIN Person q ON q.id = b
JOIN WorkAt w ON w.src = b JOIN Company f ON f.id = w.dst
JOIN IsLocatedIn l ON l.src = f.id AND l.src_type = 'Company' JOIN Country c ON c.id = l.dst
WHERE a = $personId AND c.name = $countryName AND workFrom < $year
ORDER BY workFrom, q.id, f.name DESC LIMIT 10

-- ic12
WITH RECURSIVE below(class) AS (
    SELECT id FROM TagClass WHERE name = $className
    UNION SELECT src FROM below JOIN IsSubclassOf ON dst = class
)
SELECT q.id, firstName, lastName, list_sort(list(DISTINCT Tag.name)), count(DISTINCT r.src) AS n
FROM friend JOIN Person q ON q.id = b JOIN author ON p = b
JOIN ReplyOf r ON r.src = m AND r.dst_type = 'Post' JOIN message_tag x ON x.m = r.dst
JOIN Tag ON Tag.id = t JOIN HasType h ON h.src = t JOIN below ON class = h.dst
WHERE a = $personId GROUP BY q.id, firstName, lastName ORDER BY n DESC, q.id LIMIT 20

-- ic13
WITH RECURSIVE step(b, n) AS (
    SELECT $from::BIGINT, 0
    UNION SELECT friend.b, n + 1 FROM step JOIN friend ON a = step.b WHERE n < 16
)
SELECT coalesce(min(n), -1) FROM step WHERE b = $to

-- ic14
WITH RECURSIVE step(b, way) AS (
    SELECT $from::BIGINT, [$from::BIGINT]
    UNION ALL SELECT friend.b, list_append(way, friend.b) FROM step JOIN friend ON a = step.b
    WHERE len(way) < 5 AND NOT list_contains(way, friend.b)
), arrived AS (SELECT way FROM step WHERE b = $to),
talk AS (
    SELECT c.p AS x, o.p AS y, CASE r.dst_type WHEN 'Post' THEN 1.0 ELSE 0.5 END AS worth
    FROM ReplyOf r JOIN author c ON c.m = r.src JOIN author o ON o.m = r.dst
    JOIN (SELECT DISTINCT a, b FROM friend) ON a = c.p AND b = o.p
)
SELECT list_transform(way, lambda one: one::VARCHAR) AS ids, coalesce((
    SELECT sum(worth) FROM talk WHERE list_contains(way, x) AND list_contains(way, y)
), 0)::DOUBLE AS weight
FROM arrived WHERE len(way) = (SELECT min(len(way)) FROM arrived) ORDER BY weight DESC, list_reverse(ids)
